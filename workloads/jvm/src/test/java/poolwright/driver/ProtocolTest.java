package poolwright.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

class ProtocolTest {
    private static final String SPEC =
            """
            {"protocol": 1, "phase": "load", "parameters": {"entries": 60000, "how": "x", "on": true, "leveldb.blocksize": "4K"},
             "paths": {"db": "/data/db"}, "scratch": "/s", "cache": "/c", "tools": "/t", "seed": 17}""";

    private static Spec read(String text) {
        return Spec.read(new StringReader(text));
    }

    @Test
    void readsTheSpecification() {
        Spec spec = read(SPEC);
        assertEquals("load", spec.phase());
        assertEquals(17, spec.seed());
        assertEquals(Path.of("/data/db"), spec.path("db"));
        assertEquals(60000, spec.parameters().count("entries", 1));
        assertTrue(spec.parameters().flag("on", false));
        assertEquals(5, spec.parameters().count("absent", 5));
        assertEquals(Map.of("blocksize", "4K"), spec.parameters().beginning("leveldb."));
        assertEquals(2 << 20, spec.parameters().size("absent", "2M"));
    }

    @Test
    void refusesWhatItCannotDo() {
        assertThrows(Failure.class, () -> read("no object"));
        assertThrows(Failure.class, () -> read("{}"));
        assertThrows(Failure.class, () -> read(SPEC.replace("\"protocol\": 1", "\"protocol\": 2")));
        assertThrows(Failure.class, () -> read(SPEC).path("wal"));
        Parameters parameters = read(SPEC).parameters();
        assertThrows(Failure.class, () -> parameters.only(Set.of("entries", "how", "on")));
        assertThrows(Failure.class, () -> parameters.count("how", 1));
        assertThrows(Failure.class, () -> parameters.oneOf("how", "a", "a", "b"));
        assertThrows(Failure.class, () -> Sizes.parse("size", "3 MB"));
    }

    private static String[] said(Consumer<Report> speaker) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        speaker.accept(new Report(new PrintStream(out, false, StandardCharsets.UTF_8)));
        return out.toString(StandardCharsets.UTF_8).split("\n");
    }

    @Test
    void saysOneObjectALine() {
        String[] lines = said(report -> {
            report.start();
            report.figure("puts_per_s", 812.5, "1/s");
            report.log("two\nlines");
            report.stop();
        });
        assertEquals("{\"measure\":\"start\"}", lines[0]);
        assertEquals("{\"figure\":{\"name\":\"puts_per_s\",\"value\":812.5,\"unit\":\"1/s\"}}", lines[1]);
        assertEquals("two\nlines", JsonParser.parseString(lines[2]).getAsJsonObject().get("log").getAsString());
        assertEquals(4, lines.length);
    }

    @Test
    void latenciesOfAllThreadsAreAddedUp() {
        Latencies all = new Latencies();
        for (int thread = 0; thread < 2; thread++) {
            Latencies own = new Latencies();
            for (int value = 1; value <= 500; value++) {
                own.of("get").recordValue(1_000L * (value + 500 * thread));
            }
            own.of("never");
            all.add(own);
        }
        String[] lines = said(all::say);
        assertEquals(1, lines.length);
        JsonObject said = JsonParser.parseString(lines[0]).getAsJsonObject().getAsJsonObject("latency");
        assertEquals(1_000, said.get("count").getAsLong());
        assertEquals(500_000, said.get("p50").getAsDouble(), 1_000);
        assertEquals(990_000, said.get("p99").getAsDouble(), 2_000);
        assertEquals(1_000_000, said.get("max").getAsDouble(), 1_000);
    }

    @Test
    void progressEndsWithWhatWasDone() {
        String[] lines = said(report -> {
            try (Progress progress = new Progress(report, 10, "puts")) {
                progress.add(7);
            }
        });
        JsonObject last = JsonParser.parseString(lines[lines.length - 1]).getAsJsonObject().getAsJsonObject("progress");
        assertEquals(7, last.get("done").getAsLong());
        assertEquals(10, last.get("of").getAsLong());
    }

    @Test
    void compressibilityTellsNoiseFromText() {
        byte[] noise = new byte[1 << 18];
        new SplittableRandom(1).nextBytes(noise);
        assertEquals(8, Compressibility.entropy(noise), 0.01);
        assertEquals(1, Compressibility.gzipRatio(noise), 0.01);
        byte[] text = "abcd".repeat(1 << 14).getBytes(StandardCharsets.US_ASCII);
        assertEquals(2, Compressibility.entropy(text), 1e-9);
        assertTrue(Compressibility.gzipRatio(text) > 50);
    }
}
