package poolwright.orientdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonParser;
import org.junit.jupiter.api.Test;
import poolwright.driver.Failure;
import poolwright.driver.Parameters;

class SettingsTest {
    private static Settings of(String json) {
        return Settings.of(new Parameters(JsonParser.parseString(json).getAsJsonObject().asMap()));
    }

    @Test
    void sizesAndNumbersAsACampaignWritesThem() {
        Settings settings = of("{\"batch\": 1000, \"cache\": \"256M\", \"wal_compression_from\": 0, \"access\": \"remote\", \"heap\": \"1g\"}");
        assertEquals(1000, settings.batch());
        assertEquals(256L << 20, settings.cache());
        assertEquals(0, settings.walCompressionFrom());
        assertTrue(settings.remote());
    }

    @Test
    void whatWouldHaveNoEffectIsRefused() {
        assertThrows(Failure.class, () -> of("{\"batches\": 10}"));
        assertThrows(Failure.class, () -> of("{\"batch\": 0}"));
        assertThrows(Failure.class, () -> of("{\"compression\": \"snappy\"}"));
        assertThrows(Failure.class, () -> of("{\"compression\": \"gzip\"}"));
        assertEquals("gzip", of("{\"compression\": \"gzip\", \"cluster_version\": 1}").compression());
    }
}
