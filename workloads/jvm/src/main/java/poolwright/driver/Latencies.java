package poolwright.driver;

import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.Histogram;

/**
 * The latencies of one thread in nanoseconds, by operation, with three significant digits. Those of all threads are
 * added at the end, so that recording needs no synchronisation.
 */
public final class Latencies {
    private static final int DIGITS = 3;

    private final Map<String, Histogram> byOperation = new TreeMap<>();

    /** Returns the histogram of one operation; a loop may keep it and call {@code recordValue}. */
    public Histogram of(String operation) {
        return byOperation.computeIfAbsent(operation, name -> new Histogram(DIGITS));
    }

    public void add(Latencies others) {
        others.byOperation.forEach((operation, times) -> of(operation).add(times));
    }

    /** Reports every operation that occurred. */
    public void say(Report report) {
        byOperation.forEach((operation, times) -> {
            if (times.getTotalCount() > 0) {
                report.latency(operation, times);
            }
        });
    }
}
