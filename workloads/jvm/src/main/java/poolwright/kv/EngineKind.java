package poolwright.kv;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Supplier;
import poolwright.driver.Failure;

/** The engines there are. */
enum EngineKind {
    LEVELDB("leveldb", "LevelDB", LevelDbEngine::new, LevelDbEngine::version),
    BDB("bdb", "Berkeley DB JE", BdbEngine::new, BdbEngine::version),
    ROCKSDB("rocksdb", "RocksDB", RocksDbEngine::new, RocksDbEngine::version),
    LMDB("lmdb", "LMDB", LmdbEngine::new, LmdbEngine::version);

    /** Opens the files in a directory, which exists. */
    @FunctionalInterface
    private interface Opener {
        Engine open(Path directory, Settings settings);
    }

    /** What settings and parameters call it. */
    final String word;
    /** What it is called among people. */
    final String title;

    private final Opener opener;
    private final Supplier<String> version;

    EngineKind(String word, String title, Opener opener, Supplier<String> version) {
        this.word = word;
        this.title = title;
        this.opener = opener;
        this.version = version;
    }

    Engine open(Path directory, Settings settings) {
        return opener.open(directory, settings);
    }

    /** Of the library, as it says itself. */
    String version() {
        return version.get();
    }

    static EngineKind of(String word) {
        return Arrays.stream(values())
                .filter(kind -> kind.word.equals(word))
                .findFirst()
                .orElseThrow(() -> new Failure("there is no engine '" + word + "'; there are "
                        + String.join(", ", Arrays.stream(values()).map(kind -> kind.word).toList())));
    }
}
