package poolwright.kv;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;
import poolwright.driver.Failure;

/** LevelDB: the original C++ library through JNI. */
final class LevelDbEngine implements Engine {
    private final File directory;
    private final Options options;
    private final ReadOptions reading;
    private final WriteOptions writing;
    private final boolean iterators;
    private DB database;

    LevelDbEngine(Path directory, Settings settings) {
        this.directory = directory.toFile();
        options = new Options()
                .createIfMissing(settings.flag(Setting.CREATE_IF_MISSING))
                .errorIfExists(settings.flag(Setting.ERROR_IF_EXISTS))
                .paranoidChecks(settings.flag(Setting.PARANOID_CHECKS))
                .writeBufferSize(settings.whole(Setting.WRITE_BUFFER))
                .maxOpenFiles(settings.whole(Setting.MAX_OPEN_FILES))
                .cacheSize(settings.number(Setting.BLOCK_CACHE))
                .blockSize(settings.whole(Setting.BLOCK_SIZE))
                .blockRestartInterval(settings.whole(Setting.RESTART_INTERVAL))
                .compressionType(settings.flag(Setting.COMPRESSION) ? CompressionType.SNAPPY : CompressionType.NONE);
        reading = new ReadOptions()
                .fillCache(settings.flag(Setting.FILL_CACHE))
                .verifyChecksums(settings.flag(Setting.VERIFY_CHECKSUMS));
        writing = new WriteOptions().sync(settings.flag(Setting.WRITE_SYNC));
        iterators = settings.flag(Setting.ITERATORS);
        database = open();
    }

    private DB open() {
        try {
            return JniDBFactory.factory.open(directory, options);
        } catch (IOException error) {
            throw new Failure("LevelDB cannot open " + directory, error);
        }
    }

    /** Returns the version of the wrapper, because that of LevelDB is not available. */
    static String version() {
        return "leveldbjni " + JniDBFactory.VERSION;
    }

    @Override
    public byte[] get(byte[] key) {
        if (!iterators) {
            return database.get(key, reading);
        }
        // Not with Entries, whose steps would read the next entry.
        try (DBIterator at = database.iterator(reading)) {
            at.seek(key);
            return at.hasNext() && Arrays.equals(at.peekNext().getKey(), key) ? at.peekNext().getValue() : null;
        } catch (IOException error) {
            throw new Failure("LevelDB cannot close an iterator", error);
        }
    }

    @Override
    public void put(byte[] key, byte[] record) {
        database.put(key, record, writing);
    }

    @Override
    public void putAll(List<Entry> entries) {
        try (WriteBatch batch = database.createWriteBatch()) {
            entries.forEach(entry -> batch.put(entry.key(), entry.record()));
            database.write(batch, writing);
        } catch (IOException error) {
            throw new Failure("LevelDB cannot close a batch", error);
        }
    }

    @Override
    public void delete(byte[] key) {
        database.delete(key, writing);
    }

    @Override
    public Engine.Entries entries() {
        return new Entries(database.iterator(reading));
    }

    /** LevelDB has no such function: the files are removed and created again. */
    @Override
    public void truncate() {
        close();
        try {
            JniDBFactory.factory.destroy(directory, options);
        } catch (IOException error) {
            throw new Failure("LevelDB cannot remove " + directory, error);
        }
        options.createIfMissing(true).errorIfExists(false);
        database = open();
    }

    @Override
    public void close() {
        try {
            database.close();
        } catch (IOException error) {
            throw new Failure("LevelDB cannot close " + directory, error);
        }
    }

    private static final class Entries implements Engine.Entries {
        private final DBIterator iterator;
        private Map.Entry<byte[], byte[]> current;

        Entries(DBIterator iterator) {
            this.iterator = iterator;
            iterator.seekToFirst();
        }

        @Override
        public boolean next() {
            current = iterator.hasNext() ? iterator.next() : null;
            return current != null;
        }

        @Override
        public byte[] key() {
            return current.getKey();
        }

        @Override
        public byte[] record() {
            return current.getValue();
        }

        @Override
        public void close() {
            try {
                iterator.close();
            } catch (IOException error) {
                throw new Failure("LevelDB cannot close an iterator", error);
            }
        }
    }
}
