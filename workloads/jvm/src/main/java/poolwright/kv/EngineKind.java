package poolwright.kv;

import java.nio.file.Path;
import java.util.Arrays;
import poolwright.driver.Failure;

/** The engines there are. */
enum EngineKind {
    LEVELDB("leveldb", "LevelDB", LevelDbEngine::new),
    BDB("bdb", "Berkeley DB JE", BdbEngine::new),
    ROCKSDB("rocksdb", "RocksDB", RocksDbEngine::new),
    LMDB("lmdb", "LMDB", LmdbEngine::new);

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

    EngineKind(String word, String title, Opener opener) {
        this.word = word;
        this.title = title;
        this.opener = opener;
    }

    Engine open(Path directory, Settings settings) {
        return opener.open(directory, settings);
    }

    static EngineKind of(String word) {
        return Arrays.stream(values())
                .filter(kind -> kind.word.equals(word))
                .findFirst()
                .orElseThrow(() -> new Failure("there is no engine '" + word + "'; there are "
                        + String.join(", ", Arrays.stream(values()).map(kind -> kind.word).toList())));
    }
}
