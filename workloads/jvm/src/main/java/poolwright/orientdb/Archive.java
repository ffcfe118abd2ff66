package poolwright.orientdb;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import poolwright.driver.Failure;
import poolwright.driver.Progress;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** The move of the backup to the dataset "archive", while no database is running. */
final class Archive {
    private static final double S = 1e9;
    private static final long TICK_MS = 100;

    private final Spec spec;
    private final Report report;

    Archive(Spec spec, Report report) {
        this.spec = spec;
        this.report = report;
    }

    /**
     * Moves the backup with mv, as the report did. {@code move_s} is the time until mv returns, which the report measured; the
     * measured window extends until the file is on the device.
     */
    void run() throws IOException, InterruptedException {
        Path from = spec.path("backup").resolve(Backup.FILE);
        Path to = spec.path("archive").resolve(Backup.FILE);
        if (!Files.exists(from)) {
            throw new Failure("no backup in " + from + "; run the phase 'backup' first");
        }
        long of = Files.size(from);
        report.start();
        long began = System.nanoTime();
        long moved;
        try (Progress progress = new Progress(report, of, "bytes")) {
            move(from, to, progress);
            moved = System.nanoTime();
            progress.add(of - progress.done());
        }
        Folder.sync(to);
        long synced = System.nanoTime();
        report.stop();
        report.figure("move_s", (moved - began) / S, "s");
        report.figure("archive_s", (synced - began) / S, "s");
        report.figure("archive_length", of, "bytes");
    }

    /** Moves a file with mv; counts its bytes in {@code progress}. */
    static void move(Path from, Path to, Progress progress) throws IOException, InterruptedException {
        Process mv = new ProcessBuilder("mv", "--", from.toString(), to.toString()).redirectErrorStream(true).start();
        // mv must not outlive an interrupted driver.
        Runtime.getRuntime().addShutdownHook(new Thread(mv::destroyForcibly));
        long before = progress.done();
        try {
            while (!mv.waitFor(TICK_MS, TimeUnit.MILLISECONDS)) {
                progress.add(Math.max(0, before + Backup.length(to) - progress.done()));
            }
        } finally {
            mv.destroyForcibly();
        }
        if (mv.exitValue() != 0) {
            try (BufferedReader said = mv.inputReader(StandardCharsets.UTF_8)) {
                throw new Failure("mv failed: " + said.readLine());
            }
        }
    }
}
