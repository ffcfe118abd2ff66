package poolwright.driver;

import com.google.gson.JsonObject;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.HdrHistogram.AbstractHistogram;

/** What a driver says to the lab, a JSON line each on stdout. Any thread may speak. */
public final class Report {
    private final PrintStream out;

    public Report(PrintStream out) {
        this.out = out;
    }

    /** What is between start and stop is measured; without them, all of the phase. */
    public void start() {
        line("measure", "start");
    }

    public void stop() {
        line("measure", "stop");
    }

    /** Work done so far; at least once a second while it is measured ({@link Progress} does that). */
    public void progress(long done, long of, String unit) {
        JsonObject body = new JsonObject();
        body.addProperty("done", done);
        body.addProperty("of", of);
        body.addProperty("unit", unit);
        line("progress", body);
    }

    /** The latencies of one operation, in nanoseconds. */
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

    /** A result of the phase. */
    public void figure(String name, double value, String unit) {
        line("figure", measured(name, value, unit));
    }

    /** A point in time, now. */
    public void series(String name, double value, String unit) {
        line("series", measured(name, value, unit));
    }

    /** A program that is run, as it says itself. */
    public void version(String name, String value) {
        JsonObject body = new JsonObject();
        body.addProperty("name", name);
        body.addProperty("value", value);
        line("version", body);
    }

    /** A line worth keeping with the results. */
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

    /** One write for the whole line: the lab reads lines, and another thread's must not come between. */
    private synchronized void say(JsonObject line) {
        byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
        out.write(bytes, 0, bytes.length);
        out.flush();
    }
}
