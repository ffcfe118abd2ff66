package poolwright.kv;

import com.sleepycat.je.CacheMode;
import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.DatabaseException;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.Get;
import com.sleepycat.je.JEVersion;
import com.sleepycat.je.Put;
import com.sleepycat.je.ReadOptions;
import com.sleepycat.je.Transaction;
import java.nio.file.Path;
import java.util.List;
import poolwright.driver.Failure;

/** Berkeley DB Java Edition: one transactional database, every put and delete is a transaction. */
final class BdbEngine implements Engine {
    private static final String NAME = "entries";

    private final Environment environment;
    private final DatabaseConfig databaseConfig;
    private final ReadOptions reading;
    private final boolean iterators;
    private Database database;

    BdbEngine(Path directory, Settings settings) {
        boolean create = settings.flag(Setting.CREATE_IF_MISSING);
        databaseConfig = new DatabaseConfig().setAllowCreate(create).setTransactional(true);
        reading = new ReadOptions()
                .setCacheMode(settings.flag(Setting.FILL_CACHE) ? CacheMode.DEFAULT : CacheMode.EVICT_LN);
        iterators = settings.flag(Setting.ITERATORS);
        try {
            environment = new Environment(directory.toFile(), config(settings));
            database = environment.openDatabase(null, NAME, databaseConfig);
        } catch (DatabaseException | IllegalArgumentException error) {
            throw new Failure("Berkeley DB cannot open " + directory, error);
        }
    }

    private static EnvironmentConfig config(Settings settings) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(settings.flag(Setting.CREATE_IF_MISSING));
        config.setTransactional(true);
        config.setCacheSize(settings.number(Setting.BLOCK_CACHE));
        config.setDurability(
                settings.flag(Setting.WRITE_SYNC) ? Durability.COMMIT_SYNC : Durability.COMMIT_WRITE_NO_SYNC);
        config.setConfigParam(EnvironmentConfig.LOG_FILE_CACHE_SIZE, Long.toString(settings.number(Setting.MAX_OPEN_FILES)));
        config.setConfigParam(
                EnvironmentConfig.LOG_CHECKSUM_READ, Boolean.toString(settings.flag(Setting.VERIFY_CHECKSUMS)));
        return config;
    }

    static String version() {
        return JEVersion.CURRENT_VERSION.getNumericVersionString();
    }

    @Override
    public byte[] get(byte[] key) {
        DatabaseEntry record = new DatabaseEntry();
        DatabaseEntry wanted = new DatabaseEntry(key);
        if (!iterators) {
            return database.get(null, wanted, record, Get.SEARCH, reading) == null ? null : record.getData();
        }
        try (Cursor cursor = database.openCursor(null, null)) {
            return cursor.get(wanted, record, Get.SEARCH, reading) == null ? null : record.getData();
        }
    }

    @Override
    public void put(byte[] key, byte[] record) {
        database.put(null, new DatabaseEntry(key), new DatabaseEntry(record), Put.OVERWRITE, null);
    }

    @Override
    public void putAll(List<Entry> entries) {
        Transaction transaction = environment.beginTransaction(null, null);
        try {
            for (Entry entry : entries) {
                database.put(
                        transaction, new DatabaseEntry(entry.key()), new DatabaseEntry(entry.record()), Put.OVERWRITE, null);
            }
            transaction.commit();
        } finally {
            if (transaction.isValid()) {
                transaction.abort();
            }
        }
    }

    @Override
    public void delete(byte[] key) {
        database.delete(null, new DatabaseEntry(key), null);
    }

    @Override
    public Engine.Entries entries() {
        return new Entries(database.openCursor(null, null), reading);
    }

    @Override
    public void truncate() {
        database.close();
        environment.truncateDatabase(null, NAME, false);
        database = environment.openDatabase(null, NAME, databaseConfig);
    }

    /** Closing the environment writes a checkpoint, so that the next opening has little to recover. */
    @Override
    public void close() {
        database.close();
        environment.close();
    }

    private static final class Entries implements Engine.Entries {
        private final Cursor cursor;
        private final ReadOptions reading;
        private final DatabaseEntry key = new DatabaseEntry();
        private final DatabaseEntry record = new DatabaseEntry();

        Entries(Cursor cursor, ReadOptions reading) {
            this.cursor = cursor;
            this.reading = reading;
        }

        @Override
        public boolean next() {
            return cursor.get(key, record, Get.NEXT, reading) != null;
        }

        @Override
        public byte[] key() {
            return key.getData();
        }

        @Override
        public byte[] record() {
            return record.getData();
        }

        @Override
        public void close() {
            cursor.close();
        }
    }
}
