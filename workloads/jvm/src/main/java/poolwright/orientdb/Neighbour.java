package poolwright.orientdb;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import org.HdrHistogram.Histogram;
import poolwright.driver.Failure;
import poolwright.driver.Latencies;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** Another user of the disks: a thread that overwrites random pages of a file and syncs each, like the commits of a database. */
final class Neighbour extends Thread implements AutoCloseable {
    private static final double S = 1e9;
    private static final int PAGE = 16 << 10;
    private static final int PAGES = 1024;

    private final Path file;
    private final byte[] content;
    private final Random random;
    private final Latencies latencies = new Latencies();
    private final Histogram times = latencies.of("neighbour");
    private volatile boolean ended;
    private volatile Exception failed;
    private long began;
    private long stopped;

    /** Creates the file from repetitions of {@code text}, so that it compresses like the graph's names. */
    Neighbour(Spec spec, byte[] text) throws IOException {
        super("neighbour");
        file = spec.path("neighbour").resolve("pages");
        random = new Random(spec.seed());
        content = new byte[PAGES * PAGE];
        for (int at = 0; at < content.length; at += text.length) {
            System.arraycopy(text, 0, content, at, Math.min(text.length, content.length - at));
        }
        Files.write(file, content);
        Folder.sync(file);
    }

    @Override
    public synchronized void start() {
        began = System.nanoTime();
        super.start();
    }

    @Override
    public void run() {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            while (!ended) {
                long start = System.nanoTime();
                ByteBuffer page = ByteBuffer.wrap(content, random.nextInt(PAGES) * PAGE, PAGE);
                channel.write(page, (long) random.nextInt(PAGES) * PAGE);
                channel.force(false);
                times.recordValue(System.nanoTime() - start);
            }
        } catch (IOException problem) {
            failed = problem;
        }
        stopped = System.nanoTime();
    }

    @Override
    public void close() {
        end();
    }

    /** Stops the thread, and waits for its end. */
    void end() {
        ended = true;
        try {
            join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Reports the writes of the stopped neighbour. */
    void say(Report report) {
        if (failed != null) {
            throw new Failure("the neighbour's write failed: " + failed);
        }
        latencies.say(report);
        report.figure("neighbour_writes_per_s", times.getTotalCount() / ((stopped - began) / S), "1/s");
    }
}
