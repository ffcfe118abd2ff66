package poolwright.kv;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.lmdbjava.ByteArrayProxy;
import org.lmdbjava.Cursor;
import org.lmdbjava.Dbi;
import org.lmdbjava.Env;
import org.lmdbjava.EnvFlags;
import org.lmdbjava.GetOp;
import org.lmdbjava.LmdbException;
import org.lmdbjava.Meta;
import org.lmdbjava.Txn;
import poolwright.driver.Failure;

/** LMDB: a copy-on-write tree in one mapped file; every put and delete is a transaction. */
final class LmdbEngine implements Engine {
    /** Limit of the file's size in bytes. It reserves only address space: the file is as long as its content. */
    private static final long MAP_BYTES = 1L << 40;
    /** Limit of concurrent readers: threads and iterators. */
    private static final int READERS = 1024;

    private final Env<byte[]> environment;
    private final Dbi<byte[]> database;
    private final boolean iterators;

    LmdbEngine(Path directory, Settings settings) {
        List<EnvFlags> flags = new ArrayList<>();
        // A thread may read while it has an iterator open.
        flags.add(EnvFlags.MDB_NOTLS);
        // Reads are random, so read-ahead by the system would not help.
        flags.add(EnvFlags.MDB_NORDAHEAD);
        if (!settings.flag(Setting.WRITE_SYNC)) {
            flags.add(EnvFlags.MDB_NOSYNC);
        }
        iterators = settings.flag(Setting.ITERATORS);
        try {
            environment = Env.create(ByteArrayProxy.PROXY_BA)
                    .setMapSize(MAP_BYTES)
                    .setMaxReaders(READERS)
                    .open(directory.toFile(), flags.toArray(EnvFlags[]::new));
            // The unnamed database, which always exists.
            database = environment.openDbi((byte[]) null);
        } catch (LmdbException error) {
            throw new Failure("LMDB cannot open " + directory, error);
        }
    }

    static String version() {
        Meta.Version version = Meta.version();
        return version.major + "." + version.minor + "." + version.patch;
    }

    @Override
    public byte[] get(byte[] key) {
        try (Txn<byte[]> txn = environment.txnRead()) {
            if (!iterators) {
                return database.get(txn, key);
            }
            try (Cursor<byte[]> cursor = database.openCursor(txn)) {
                return cursor.get(key, GetOp.MDB_SET) ? cursor.val() : null;
            }
        }
    }

    @Override
    public void put(byte[] key, byte[] record) {
        database.put(key, record);
    }

    @Override
    public void putAll(List<Entry> entries) {
        try (Txn<byte[]> txn = environment.txnWrite()) {
            for (Entry entry : entries) {
                database.put(txn, entry.key(), entry.record());
            }
            txn.commit();
        }
    }

    @Override
    public void delete(byte[] key) {
        database.delete(key);
    }

    @Override
    public Engine.Entries entries() {
        return new Entries(environment, database);
    }

    /** The file keeps its length: LMDB reuses its pages. */
    @Override
    public void truncate() {
        try (Txn<byte[]> txn = environment.txnWrite()) {
            database.drop(txn);
            txn.commit();
        }
    }

    @Override
    public void close() {
        environment.sync(true);
        environment.close();
    }

    private static final class Entries implements Engine.Entries {
        private final Txn<byte[]> txn;
        private final Cursor<byte[]> cursor;
        private boolean started;

        Entries(Env<byte[]> environment, Dbi<byte[]> database) {
            txn = environment.txnRead();
            cursor = database.openCursor(txn);
        }

        @Override
        public boolean next() {
            boolean found = started ? cursor.next() : cursor.first();
            started = true;
            return found;
        }

        @Override
        public byte[] key() {
            return cursor.key();
        }

        @Override
        public byte[] record() {
            return cursor.val();
        }

        @Override
        public void close() {
            cursor.close();
            txn.close();
        }
    }
}
