package poolwright.driver;

import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.Histogram;

/**
 * The latencies of one thread, by operation; those of all threads are added up at the end, so that recording one
 * costs no synchronisation. Nanoseconds, to three digits.
 */
public final class Latencies {
    private static final int DIGITS = 3;

    private final Map<String, Histogram> byOperation = new TreeMap<>();

    /** The histogram of one operation; a loop keeps it and calls {@code recordValue}. */
    public Histogram of(String operation) {
        return byOperation.computeIfAbsent(operation, name -> new Histogram(DIGITS));
    }

    public void add(Latencies others) {
        others.byOperation.forEach((operation, times) -> of(operation).add(times));
    }

    /** Says every operation that was done at all. */
    public void say(Report report) {
        byOperation.forEach((operation, times) -> {
            if (times.getTotalCount() > 0) {
                report.latency(operation, times);
            }
        });
    }
}
