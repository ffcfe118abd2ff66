package poolwright.kv;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import poolwright.driver.Failure;
import poolwright.driver.Parameters;
import poolwright.driver.Spec;

class PlanTest {
    private static final long M = 1 << 20;

    private static Plan plan(Object... namesAndValues) {
        JsonObject parameters = new JsonObject();
        for (int number = 0; number < namesAndValues.length; number += 2) {
            Object value = namesAndValues[number + 1];
            if (value instanceof Number count) {
                parameters.addProperty((String) namesAndValues[number], count);
            } else {
                parameters.addProperty((String) namesAndValues[number], (String) value);
            }
        }
        Path none = Path.of("/nonexistent");
        return Plan.of(new Spec("load", new Parameters(parameters.asMap()), Map.of("db", none), none, none, none, 1));
    }

    @ParameterizedTest
    @EnumSource(EngineKind.class)
    void everyEngineGetsTheSameMemory(EngineKind engine) {
        Settings settings = plan("engine", engine.word, "memory", "16M",
                "leveldb.writebuffer.size", "2", "rocksdb.writebuffer.size", "2").settings();
        if (!Setting.BLOCK_CACHE.by(engine).honoured()) {
            assertTrue(settings.unused().contains("lrublockcache"));
            return;
        }
        long buffers = Setting.WRITE_BUFFER.by(engine).honoured() ? 2 * settings.number(Setting.WRITE_BUFFER) : 0;
        assertEquals(16 * M, settings.number(Setting.BLOCK_CACHE) + buffers);
    }

    @Test
    void refusesWhatContradictsItself() {
        assertThrows(Failure.class, () -> plan("memory", "16M", "leveldb.lrublockcache", "8"));
        // The default write buffer is 20 MB.
        assertThrows(Failure.class, () -> plan("memory", "16M"));
        assertThrows(Failure.class, () -> plan("puts", 0.8, "deletes", 0.3));
        assertThrows(Failure.class, () -> plan("entries", 0));
        assertThrows(Failure.class, () -> plan("entires", 5));
        assertThrows(Failure.class, () -> plan("engine", "voldemort"));
        assertThrows(Failure.class, () -> plan("leveldb.blocksise", 5));
        assertThrows(Failure.class, () -> plan("engine", "bdb", "bdb.compressiontype", 1));
    }

    @Test
    void theRehearsalMayCreateItsStore() {
        Settings settings = plan("leveldb.createifmissing", "false", "leveldb.errorifexists", "true").rehearsal();
        assertTrue(settings.flag(Setting.CREATE_IF_MISSING));
        assertEquals(0, settings.number(Setting.ERROR_IF_EXISTS));
    }
}
