package poolwright.kv;

import static poolwright.kv.EngineKind.BDB;
import static poolwright.kv.EngineKind.LEVELDB;
import static poolwright.kv.EngineKind.LMDB;
import static poolwright.kv.EngineKind.ROCKSDB;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;
import java.util.Optional;
import poolwright.driver.Failure;
import poolwright.driver.Sizes;

/**
 * All settings with the report's names: name, kind, default, meaning, and the effect on each engine. Parsing, refusals, the
 * list of unused settings, the documentation and the tests are derived from this table.
 */
enum Setting {
    POOL_SIZE("poolsize", Kind.COUNT, "4",
            "size of the thread pool for get, put and delete, which limits concurrent calls of the engine;"
                    + " 0: no pool",
            everywhere("implemented by the store")),
    ITERATORS("iterators", Kind.FLAG, "true",
            "read with an iterator instead of get",
            use(LEVELDB, "an iterator for each read"),
            use(ROCKSDB, "an iterator for each read"),
            use(BDB, "a cursor for each read"),
            use(LMDB, "a cursor for each read")),
    STRIPES("stripes", Kind.POSITIVE, "100",
            "number of locks that the keys share: the limit of concurrent puts and deletes of different keys",
            everywhere("implemented by the store")),
    CREATE_IF_MISSING("createifmissing", Kind.FLAG, "true",
            "create the database if it does not exist; otherwise that is an error",
            everywhere("checked by the store first, then by the engine")),
    ERROR_IF_EXISTS("errorifexists", Kind.FLAG, "false",
            "an existing database is an error",
            everywhere("checked by the store first, then by the engine")),
    PARANOID_CHECKS("paranoidchecks", Kind.FLAG, "false",
            "stop at the first sign of damage in data that the engine reads internally",
            use(LEVELDB, "paranoid_checks"),
            use(ROCKSDB, "paranoid_checks"),
            fixed(BDB, "true", "it always stops at damage"),
            fixed(LMDB, "false", "it has no checksums that would reveal damage")),
    WRITE_BUFFER("writebuffer.size", Kind.MEGABYTES, "20",
            "data collected in memory before it is written as a sorted file; there may be two of these buffers",
            use(LEVELDB, "write_buffer_size"),
            use(ROCKSDB, "write_buffer_size, two of them"),
            unused(BDB, "changed entries stay in the cache until the checkpoint"),
            unused(LMDB, "each commit writes its pages")),
    MAX_OPEN_FILES("maxopenfile", Kind.POSITIVE, "1024",
            "data files kept open",
            use(LEVELDB, "max_open_files"),
            use(ROCKSDB, "max_open_files"),
            use(BDB, "je.log.fileCacheSize"),
            unused(LMDB, "it has one file")),
    BLOCK_CACHE("lrublockcache", Kind.MEGABYTES, "300",
            "the engine's own cache",
            use(LEVELDB, "the LRU cache of decompressed blocks"),
            use(ROCKSDB, "the LRU cache of decompressed blocks, index and filter blocks included"),
            use(BDB, "je.maxMemory, a cache of tree nodes and entries on the Java heap"),
            unused(LMDB, "the system's page cache is its cache")),
    BLOCK_SIZE("blocksize", Kind.BYTES, "4096",
            "unit of reading and compression",
            use(LEVELDB, "block_size"),
            use(ROCKSDB, "block_size"),
            unused(BDB, "its files are a log of entries and tree nodes"),
            fixed(LMDB, "4096", "the system's page")),
    RESTART_INTERVAL("blockrestartinterval", Kind.POSITIVE, "16",
            "distance between keys that are stored completely in a block",
            use(LEVELDB, "block_restart_interval"),
            use(ROCKSDB, "block_restart_interval"),
            unused(BDB, "it has no such blocks"),
            unused(LMDB, "it stores every key completely")),
    COMPRESSION("compressiontype", Kind.SWITCH, "1",
            "compress each block: 0 no, 1 with snappy",
            use(LEVELDB, "compression"),
            use(ROCKSDB, "compression, of all levels"),
            fixed(BDB, "0", "it does not compress"),
            fixed(LMDB, "0", "it does not compress")),
    FILL_CACHE("read.fillcache", Kind.FLAG, "true",
            "keep data that was read in the cache",
            use(LEVELDB, "fill_cache"),
            use(ROCKSDB, "fill_cache"),
            use(BDB, "CacheMode DEFAULT, or EVICT_LN: keeps the tree, evicts the value"),
            fixed(LMDB, "true", "the page cache keeps data that was read")),
    VERIFY_CHECKSUMS("read.verifychecksums", Kind.FLAG, "false",
            "verify the checksums of data read from the files",
            use(LEVELDB, "verify_checksums"),
            use(ROCKSDB, "verify_checksums"),
            use(BDB, "je.log.checksumRead"),
            fixed(LMDB, "false", "it has no checksums")),
    WRITE_SYNC("write.sync", Kind.FLAG, "false",
            "a put or delete returns after it is on stable storage",
            use(LEVELDB, "sync"),
            use(ROCKSDB, "sync"),
            use(BDB, "Durability COMMIT_SYNC, or COMMIT_WRITE_NO_SYNC: passed to the system"),
            use(LMDB, "on; or MDB_NOSYNC: passed to the system"));

    /** How the text of a value is parsed; all values are numbers. */
    enum Kind {
        COUNT("integer"),
        POSITIVE("positive integer"),
        SWITCH("0 or 1"),
        FLAG("true or false"),
        BYTES("bytes, or with K, M, G"),
        MEGABYTES("MB, or with K, M, G");

        final String title;

        Kind(String title) {
            this.title = title;
        }

        /** A flag is 1 or 0, a size is bytes. */
        private long parse(String name, String text) {
            return switch (this) {
                case COUNT -> count(name, text, 0, Integer.MAX_VALUE);
                case POSITIVE -> count(name, text, 1, Integer.MAX_VALUE);
                case SWITCH -> count(name, text, 0, 1);
                case FLAG -> flag(name, text);
                case BYTES -> Sizes.parse(name, text);
                case MEGABYTES -> Sizes.parse(name, text.matches("[0-9]+") ? text + "M" : text);
            };
        }

        private long count(String name, String text, long least, long most) {
            long number = text.matches("[0-9]{1,10}") ? Long.parseLong(text) : -1;
            if (number < least || number > most) {
                throw new Failure(name + ": expected " + title + ", not '" + text + "'");
            }
            return number;
        }

        private static long flag(String name, String text) {
            if (!text.equals("true") && !text.equals("false")) {
                throw new Failure(name + " must be true or false, not '" + text + "'");
            }
            return text.equals("true") ? 1 : 0;
        }
    }

    /**
     * The effect of a setting on an engine.
     *
     * @param engine the engine
     * @param honoured whether the engine uses the setting
     * @param always if it is not used: the value that describes the engine's behaviour, or null
     * @param how how the engine uses it, or why it does not
     */
    record Use(EngineKind engine, boolean honoured, String always, String how) {}

    final String word;
    final Kind kind;
    final String otherwise;
    final String meaning;
    private final Map<EngineKind, Use> uses = new EnumMap<>(EngineKind.class);

    Setting(String word, Kind kind, String otherwise, String meaning, Use... uses) {
        this.word = word;
        this.kind = kind;
        this.otherwise = otherwise;
        this.meaning = meaning;
        for (Use use : uses) {
            this.uses.put(use.engine, use);
        }
    }

    Use by(EngineKind engine) {
        return uses.get(engine);
    }

    long parse(String name, String text) {
        return kind.parse(name, text);
    }

    static Optional<Setting> of(String word) {
        return Arrays.stream(values()).filter(setting -> setting.word.equals(word)).findFirst();
    }

    private static Use use(EngineKind engine, String how) {
        return new Use(engine, true, null, how);
    }

    private static Use fixed(EngineKind engine, String value, String why) {
        return new Use(engine, false, value, why);
    }

    private static Use unused(EngineKind engine, String why) {
        return new Use(engine, false, null, why);
    }

    private static Use[] everywhere(String how) {
        return Arrays.stream(EngineKind.values()).map(engine -> use(engine, how)).toArray(Use[]::new);
    }
}
