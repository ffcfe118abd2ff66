package poolwright.kv;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import poolwright.driver.Failure;

class SettingsTest {
    private static final long M = 1 << 20;

    private static Settings leveldb(Map<String, String> given) {
        return new Settings(EngineKind.LEVELDB, "test", given);
    }

    @Test
    void defaultsAreTheReports() {
        Settings settings = leveldb(Map.of());
        assertEquals(4, settings.number(Setting.POOL_SIZE));
        assertTrue(settings.flag(Setting.ITERATORS));
        assertEquals(20 * M, settings.number(Setting.WRITE_BUFFER));
        assertEquals(300 * M, settings.number(Setting.BLOCK_CACHE));
        assertEquals(4096, settings.number(Setting.BLOCK_SIZE));
        assertEquals(1, settings.number(Setting.COMPRESSION));
        assertFalse(settings.flag(Setting.WRITE_SYNC));
    }

    @Test
    void aStoreBeforeAllStoresBeforeTheDefault() {
        Map<String, String> given = Map.of(
                "leveldb.poolsize", "2", "leveldb.test.poolsize", "3", "leveldb.other.poolsize", "5", "rocksdb.poolsize", "6");
        assertEquals(3, leveldb(given).number(Setting.POOL_SIZE));
        assertEquals(5, new Settings(EngineKind.LEVELDB, "other", given).number(Setting.POOL_SIZE));
        assertEquals(2, new Settings(EngineKind.LEVELDB, "third", given).number(Setting.POOL_SIZE));
        assertEquals(6, new Settings(EngineKind.ROCKSDB, "test", given).number(Setting.POOL_SIZE));
        assertEquals(4, new Settings(EngineKind.BDB, "test", given).number(Setting.POOL_SIZE));
    }

    @Test
    void namesWithDotsWorkOnBothLevels() {
        assertEquals(M, leveldb(Map.of("leveldb.writebuffer.size", "1")).number(Setting.WRITE_BUFFER));
        assertEquals(512 << 10, leveldb(Map.of("leveldb.test.writebuffer.size", "512K", "leveldb.writebuffer.size", "1"))
                .number(Setting.WRITE_BUFFER));
        Map<String, String> given = Map.of("leveldb.read.read.fillcache", "false");
        assertFalse(new Settings(EngineKind.LEVELDB, "read", given).flag(Setting.FILL_CACHE));
        assertTrue(leveldb(given).flag(Setting.FILL_CACHE));
    }

    @ParameterizedTest
    @CsvSource({
        "leveldb.poolsise, 4", "leveldb.test.poolsise, 4", "level.poolsize, 4", "poolsize, 4", "leveldb..poolsize, 4",
        "leveldb.poolsize, many", "leveldb.poolsize, -1", "leveldb.stripes, 0", "leveldb.iterators, yes",
        "leveldb.compressiontype, 2", "leveldb.lrublockcache, 3X", "leveldb.blocksize, ''"
    })
    void refusesWhatItDoesNotKnow(String name, String value) {
        assertThrows(Failure.class, () -> leveldb(Map.of(name, value)));
    }

    @ParameterizedTest
    @EnumSource(EngineKind.class)
    void everySettingSaysWhatEveryEngineMakesOfIt(EngineKind engine) {
        for (Setting setting : Setting.values()) {
            assertNotNull(setting.by(engine), setting + " of " + engine);
            assertFalse(setting.by(engine).how().isEmpty());
        }
    }

    /** No setting is ignored silently: it is used, refused, or listed as unused. */
    @ParameterizedTest
    @EnumSource(EngineKind.class)
    void refusesWhatAnEngineCannotDo(EngineKind engine) {
        for (Setting setting : Setting.values()) {
            Setting.Use use = setting.by(engine);
            String name = engine.word + "." + setting.word;
            List<String> unused = new Settings(engine, "test", Map.of()).unused();
            assertEquals(!use.honoured(), unused.contains(setting.word));
            if (use.honoured()) {
                new Settings(engine, "test", Map.of(name, setting.otherwise)).number(setting);
            } else if (use.always() == null) {
                assertThrows(Failure.class, () -> new Settings(engine, "test", Map.of(name, setting.otherwise)));
                assertThrows(IllegalStateException.class, () -> new Settings(engine, "test", Map.of()).number(setting));
            } else {
                new Settings(engine, "test", Map.of(name, use.always()));
                assertThrows(Failure.class, () -> new Settings(engine, "test", Map.of(name, another(setting, use.always()))));
            }
        }
    }

    private static String another(Setting setting, String value) {
        return switch (setting.kind) {
            case FLAG -> value.equals("true") ? "false" : "true";
            case SWITCH -> value.equals("1") ? "0" : "1";
            default -> value.equals("8192") ? "16384" : "8192";
        };
    }

    /** The effect of a used setting must be observable, here in the size of the files. */
    @Test
    void compressionAndBlockSizeReachTheFiles(@TempDir Path directory) throws Exception {
        for (EngineKind engine : List.of(EngineKind.LEVELDB, EngineKind.ROCKSDB)) {
            long plain = bytesOf(directory, engine, "plain", Map.of("compressiontype", "0"));
            long snappy = bytesOf(directory, engine, "snappy", Map.of("compressiontype", "1"));
            long large = bytesOf(directory, engine, "large", Map.of("compressiontype", "1", "blocksize", "64K"));
            assertTrue(snappy < plain * 0.8, engine + ": " + snappy + " of " + plain);
            assertTrue(large < snappy, engine + ": " + large + " of " + snappy);
        }
    }

    private static long bytesOf(Path directory, EngineKind engine, String store, Map<String, String> chosen) throws Exception {
        Map<String, String> given = new HashMap<>();
        chosen.forEach((setting, value) -> given.put(engine.word + "." + setting, value));
        // No table is written, and none compacted in the background, until the store is opened again: that makes one of the log.
        given.put(engine.word + ".writebuffer.size", "64M");
        Path home = directory.resolve(engine.word);
        DataSet data = new JsonSet(1);
        try (Store opened = Store.open(home, new Settings(engine, store, given))) {
            for (long number = 0; number < 6_000; number++) {
                opened.put(data.key(number), new Versioned(data.value(number, 0), VectorClock.EMPTY.writtenBy(1, 0)));
            }
        }
        Store.open(home, new Settings(engine, store, given)).close();
        try (var files = Files.list(home.resolve(store))) {
            return files.filter(file -> file.toString().matches(".*\\.(ldb|sst)"))
                    .mapToLong(file -> file.toFile().length())
                    .sum();
        }
    }
}
