package poolwright.driver;

import com.google.gson.JsonObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.HdrHistogram.AbstractHistogram;

/** Sends messages to the lab, each a line of JSON on stdout. Thread-safe. */
public final class Report {
    private final PrintStream out;

    public Report(PrintStream out) {
        this.out = out;
    }

    /** Begins the measured window; without a window, the whole phase is measured. */
    public void start() {
        line("measure", "start");
    }

    public void stop() {
        line("measure", "stop");
    }

    /** Reports the work done so far; required at least once a second in the measured window ({@link Progress} does this). */
    public void progress(long done, long of, String unit) {
        JsonObject body = new JsonObject();
        body.addProperty("done", done);
        body.addProperty("of", of);
        body.addProperty("unit", unit);
        line("progress", body);
    }

    /** Reports the latencies of one operation in nanoseconds. */
    public void latency(String op, AbstractHistogram times) {
        JsonObject body = new JsonObject();
        body.addProperty("op", op);
        body.addProperty("count", times.getTotalCount());
        body.addProperty("p50", times.getValueAtPercentile(50));
        body.addProperty("p95", times.getValueAtPercentile(95));
        body.addProperty("p99", times.getValueAtPercentile(99));
        body.addProperty("p999", times.getValueAtPercentile(99.9));
        body.addProperty("max", times.getMaxValue());
        line("latency", body);
    }

    /** Reports a figure of the phase. */
    public void figure(String name, double value, String unit) {
        line("figure", measured(name, value, unit));
    }

    /** Reports the present value of a series. */
    public void series(String name, double value, String unit) {
        line("series", measured(name, value, unit));
    }

    /** Reports the version of a program. */
    public void version(String name, String value) {
        JsonObject body = new JsonObject();
        body.addProperty("name", name);
        body.addProperty("value", value);
        line("version", body);
    }

    /** Reports a line that is kept with the results. */
    public void log(String text) {
        line("log", text);
    }

    private static JsonObject measured(String name, double value, String unit) {
        JsonObject body = new JsonObject();
        body.addProperty("name", name);
        body.addProperty("value", value);
        body.addProperty("unit", unit);
        return body;
    }

    private void line(String kind, String value) {
        JsonObject line = new JsonObject();
        line.addProperty(kind, value);
        say(line);
    }

    private void line(String kind, JsonObject value) {
        JsonObject line = new JsonObject();
        line.add(kind, value);
        say(line);
    }

    /** Writes the whole line at once, so that lines of several threads do not mix. */
    private synchronized void say(JsonObject line) {
        byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
        out.write(bytes, 0, bytes.length);
        out.flush();
    }
}
