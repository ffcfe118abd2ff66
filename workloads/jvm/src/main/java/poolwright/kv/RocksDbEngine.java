package poolwright.kv;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.CompressionType;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;
import poolwright.driver.Failure;

/** RocksDB through its JNI library. */
final class RocksDbEngine implements Engine {
    /** One that is being filled and one that is being written, as in LevelDB. */
    private static final int WRITE_BUFFERS = 2;

    private final String directory;
    private final Cache cache;
    private final Options options;
    private final ReadOptions reading;
    private final WriteOptions writing;
    private final boolean iterators;
    private RocksDB database;

    RocksDbEngine(Path directory, Settings settings) {
        RocksDB.loadLibrary();
        this.directory = directory.toString();
        cache = new LRUCache(settings.number(Setting.BLOCK_CACHE));
        options = options(settings, cache);
        reading = new ReadOptions()
                .setFillCache(settings.flag(Setting.FILL_CACHE))
                .setVerifyChecksums(settings.flag(Setting.VERIFY_CHECKSUMS));
        writing = new WriteOptions().setSync(settings.flag(Setting.WRITE_SYNC));
        iterators = settings.flag(Setting.ITERATORS);
        database = open();
    }

    private static Options options(Settings settings, Cache cache) {
        BlockBasedTableConfig table = new BlockBasedTableConfig()
                .setBlockCache(cache)
                .setCacheIndexAndFilterBlocks(true)
                .setBlockSize(settings.number(Setting.BLOCK_SIZE))
                .setBlockRestartInterval(settings.whole(Setting.RESTART_INTERVAL));
        return new Options()
                .setCreateIfMissing(settings.flag(Setting.CREATE_IF_MISSING))
                .setErrorIfExists(settings.flag(Setting.ERROR_IF_EXISTS))
                .setParanoidChecks(settings.flag(Setting.PARANOID_CHECKS))
                .setWriteBufferSize(settings.number(Setting.WRITE_BUFFER))
                .setMaxWriteBufferNumber(WRITE_BUFFERS)
                .setMaxOpenFiles(settings.whole(Setting.MAX_OPEN_FILES))
                .setCompressionType(
                        settings.flag(Setting.COMPRESSION)
                                ? CompressionType.SNAPPY_COMPRESSION
                                : CompressionType.NO_COMPRESSION)
                .setTableFormatConfig(table)
                // The log of statistics would be written every ten minutes, during the measurement.
                .setStatsDumpPeriodSec(0)
                .setInfoLogLevel(InfoLogLevel.ERROR_LEVEL);
    }

    private RocksDB open() {
        try {
            return RocksDB.open(options, directory);
        } catch (RocksDBException error) {
            throw new Failure("RocksDB cannot open " + directory, error);
        }
    }

    static String version() {
        RocksDB.loadLibrary();
        return RocksDB.rocksdbVersion().toString();
    }

    @Override
    public byte[] get(byte[] key) {
        if (!iterators) {
            return tried(() -> database.get(reading, key));
        }
        try (RocksIterator at = database.newIterator(reading)) {
            at.seek(key);
            boolean found = valid(at) && Arrays.equals(at.key(), key);
            return found ? at.value() : null;
        }
    }

    @Override
    public void put(byte[] key, byte[] record) {
        tried(() -> {
            database.put(writing, key, record);
            return null;
        });
    }

    @Override
    public void putAll(List<Entry> entries) {
        try (WriteBatch batch = new WriteBatch()) {
            for (Entry entry : entries) {
                batch.put(entry.key(), entry.record());
            }
            database.write(writing, batch);
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void delete(byte[] key) {
        tried(() -> {
            database.delete(writing, key);
            return null;
        });
    }

    @Override
    public Engine.Entries entries() {
        return new Entries(database.newIterator(reading));
    }

    @Override
    public void truncate() {
        database.close();
        tried(() -> {
            RocksDB.destroyDB(directory, options);
            return null;
        });
        options.setCreateIfMissing(true).setErrorIfExists(false);
        database = open();
    }

    @Override
    public void close() {
        tried(() -> {
            database.closeE();
            return null;
        });
        writing.close();
        reading.close();
        options.close();
        cache.close();
    }

    @FunctionalInterface
    private interface Work {
        byte[] run() throws RocksDBException;
    }

    private static byte[] tried(Work work) {
        try {
            return work.run();
        } catch (RocksDBException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Returns false at the end; throws a failure, which RocksDB reports in the same way. */
    private static boolean valid(RocksIterator iterator) {
        if (!iterator.isValid()) {
            tried(() -> {
                iterator.status();
                return null;
            });
            return false;
        }
        return true;
    }

    private static final class Entries implements Engine.Entries {
        private final RocksIterator iterator;
        private boolean started;

        Entries(RocksIterator iterator) {
            this.iterator = iterator;
            iterator.seekToFirst();
        }

        @Override
        public boolean next() {
            if (started) {
                iterator.next();
            }
            started = true;
            return valid(iterator);
        }

        @Override
        public byte[] key() {
            return iterator.key();
        }

        @Override
        public byte[] record() {
            return iterator.value();
        }

        @Override
        public void close() {
            iterator.close();
        }
    }
}
