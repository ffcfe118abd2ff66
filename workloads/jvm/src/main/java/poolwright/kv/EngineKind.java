package poolwright.kv;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Supplier;
import poolwright.driver.Failure;

/** The supported engines. */
enum EngineKind {
    LEVELDB("leveldb", "LevelDB", LevelDbEngine::new, LevelDbEngine::version),
    BDB("bdb", "Berkeley DB JE", BdbEngine::new, BdbEngine::version),
    ROCKSDB("rocksdb", "RocksDB", RocksDbEngine::new, RocksDbEngine::version),
    LMDB("lmdb", "LMDB", LmdbEngine::new, LmdbEngine::version);

    /** Opens the files in an existing directory. */
    @FunctionalInterface
    private interface Opener {
        Engine open(Path directory, Settings settings);
    }

    /** Name in settings and parameters. */
    final String word;
    /** Name in messages. */
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

    /** Returns the version of the library. */
    String version() {
        return version.get();
    }

    static EngineKind of(String word) {
        return Arrays.stream(values())
                .filter(kind -> kind.word.equals(word))
                .findFirst()
                .orElseThrow(() -> new Failure("unknown engine '" + word + "'; expected one of "
                        + String.join(", ", Arrays.stream(values()).map(kind -> kind.word).toList())));
    }
}
