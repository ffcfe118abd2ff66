package poolwright.driver;

import java.util.concurrent.atomic.LongAdder;

/** Counts the work of all threads, and reports it twice a second until it is closed. */
public final class Progress implements AutoCloseable {
    private static final long INTERVAL_MS = 500;

    private final Report report;
    private final long of;
    private final String unit;
    private final LongAdder done = new LongAdder();
    private final Thread speaker;

    public Progress(Report report, long of, String unit) {
        this.report = report;
        this.of = of;
        this.unit = unit;
        speaker = new Thread(this::speak, "progress");
        speaker.setDaemon(true);
        report.progress(0, of, unit);
        speaker.start();
    }

    public void add(long more) {
        done.add(more);
    }

    public long done() {
        return done.sum();
    }

    private void speak() {
        try {
            while (true) {
                Thread.sleep(INTERVAL_MS);
                report.progress(done(), of, unit);
            }
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
    }

    /** Reports the total. */
    @Override
    public void close() {
        speaker.interrupt();
        try {
            speaker.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        report.progress(done(), of, unit);
    }
}
