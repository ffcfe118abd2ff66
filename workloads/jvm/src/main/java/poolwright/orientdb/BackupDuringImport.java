package poolwright.orientdb;

import com.orientechnologies.orient.core.db.ODatabaseSession;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Locale;
import org.HdrHistogram.Histogram;
import poolwright.driver.Failure;
import poolwright.driver.Latencies;
import poolwright.driver.Progress;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** A backup and its move to the archive, while a thread imports further triples one by one. */
final class BackupDuringImport {
    private static final double S = 1e9;
    private static final long QUIET_MS = 1000;

    private final Spec spec;
    private final Settings settings;
    private final Report report;

    BackupDuringImport(Spec spec, Settings settings, Report report) {
        this.spec = spec;
        this.settings = settings;
        this.report = report;
    }

    /**
     * {@code blocked_s} is the longest time that a triple waited because of the backup; {@code quiet_rate}, {@code backup_rate} and
     * {@code archive_rate} are the triples per second before, during the backup, and during the move.
     */
    void run() throws IOException, InterruptedException {
        Path file = spec.path("backup").resolve(Backup.FILE);
        Triples triples = Import.input(spec, settings, spec.seed() + 1);
        try (Database database = Database.open(spec, settings); ODatabaseSession session = database.local()) {
            long of = Folder.bytes(database.folder());
            Importer importer = new Importer(database, triples);
            report.start();
            importer.start();
            try (Progress progress = new Progress(report, 2 * of, "bytes")) {
                importer.has(Stage.QUIET);
                Thread.sleep(QUIET_MS);
                importer.enter(Stage.BACKUP);
                Backup.write(session, database.folder(), file, settings, progress);
                progress.add(of - progress.done());
                importer.enter(Stage.ARCHIVE);
                Path archived = spec.path("archive").resolve(Backup.FILE);
                Archive.move(file, archived, progress);
                Folder.sync(archived);
                importer.enter(Stage.END);
                progress.add(2 * of - progress.done());
            } finally {
                importer.end();
            }
            report.stop();
            importer.say(report);
        }
    }

    /** What happens beside the import. */
    private enum Stage {
        QUIET,
        BACKUP,
        ARCHIVE,
        END
    }

    /** Imports triples in its own thread and measures each. */
    private static final class Importer extends Thread {
        private final Database database;
        private final Triples triples;
        private final Latencies latencies = new Latencies();
        private final Histogram[] times;
        private final long[] entered = new long[Stage.values().length];
        private volatile Stage stage = Stage.QUIET;
        private volatile boolean begun;
        private volatile Exception failed;

        Importer(Database database, Triples triples) {
            super("importer");
            this.database = database;
            this.triples = triples;
            times = new Histogram[] {
                latencies.of("quiet_triple"), latencies.of("backup_triple"), latencies.of("archive_triple")
            };
        }

        /** Waits for the first triple. */
        void has(Stage first) throws InterruptedException {
            while (!begun && isAlive()) {
                Thread.sleep(1);
            }
            enter(first);
        }

        void enter(Stage next) {
            stage = next;
            entered[next.ordinal()] = System.nanoTime();
        }

        @Override
        public void run() {
            try (ODatabaseSession session = database.local()) {
                Graph graph = new Graph(session);
                // Again from the beginning if they end before the backup is moved.
                while (stage != Stage.END) {
                    triples.forEach(triple -> {
                        if (stage == Stage.END) {
                            throw new Ended();
                        }
                        add(graph, triple);
                    });
                    if (!begun) {
                        throw new Failure("the input has no triple");
                    }
                }
            } catch (Ended ended) {
                // The loop over the triples has ended.
            } catch (IOException | RuntimeException problem) {
                failed = problem;
            }
        }

        private void add(Graph graph, Triple triple) {
            Stage from = stage;
            long began = System.nanoTime();
            graph.begin();
            graph.add(triple);
            graph.commit();
            long took = System.nanoTime() - began;
            // A triple that waited for the backup may have begun before it.
            Stage in = from == Stage.QUIET && stage != Stage.QUIET ? Stage.BACKUP : from;
            if (begun && in != Stage.END) {
                times[in.ordinal()].recordValue(took);
            }
            begun = true;
        }

        void end() throws InterruptedException {
            stage = Stage.END;
            join();
        }

        void say(Report report) {
            if (failed != null) {
                throw new Failure("the import beside the backup failed: " + failed);
            }
            latencies.say(report);
            for (Stage of : new Stage[] {Stage.QUIET, Stage.BACKUP, Stage.ARCHIVE}) {
                double seconds = (entered[of.ordinal() + 1] - entered[of.ordinal()]) / S;
                String name = of.name().toLowerCase(Locale.ROOT);
                report.figure(name + "_rate", times[of.ordinal()].getTotalCount() / seconds, "1/s");
                if (of != Stage.QUIET) {
                    report.figure(name + "_s", seconds, "s");
                }
            }
            report.figure("blocked_s", times[Stage.BACKUP.ordinal()].getMaxValue() / S, "s");
        }
    }

    /** Ends the loop over the triples. */
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }
}
