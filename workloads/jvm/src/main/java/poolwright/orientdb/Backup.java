package poolwright.orientdb;

import com.orientechnologies.orient.core.db.ODatabaseSession;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import poolwright.driver.Progress;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** A backup with OrientDB's backup function into the dataset "backup". */
final class Backup {
    static final String FILE = Database.NAME + ".zip";
    private static final String MESSAGE = "Compressing file ";
    private static final double S = 1e9;

    private final Spec spec;
    private final Settings settings;
    private final Report report;

    Backup(Spec spec, Settings settings, Report report) {
        this.spec = spec;
        this.settings = settings;
        this.report = report;
    }

    /** {@code backup_s} is the time that the report measured, in which the database is read-only. */
    void run() throws IOException {
        Path file = spec.path("backup").resolve(FILE);
        try (Database database = Database.open(spec, settings); ODatabaseSession session = database.local()) {
            long of = Folder.bytes(database.folder());
            report.start();
            long began = System.nanoTime();
            try (Progress progress = new Progress(report, of, "bytes")) {
                write(session, database.folder(), file, settings, progress);
                // OrientDB omits some small files, but the work is complete.
                progress.add(of - progress.done());
            }
            long done = System.nanoTime();
            Folder.sync(file);
            report.stop();
            report.figure("backup_s", (done - began) / S, "s");
            report.figure("backup_length", Files.size(file), "bytes");
            report.figure("database_length", of, "bytes");
        }
    }

    /** Writes a backup of the database in {@code folder}; counts the bytes of the database in {@code progress}. */
    static void write(ODatabaseSession session, Path folder, Path file, Settings settings, Progress progress)
            throws IOException {
        // OrientDB prints the name of each file when it begins it, which is when the previous one is complete.
        String[] before = {null};
        try (OutputStream out = Files.newOutputStream(file)) {
            session.backup(out, null, null, text -> {
                progress.add(before[0] == null ? 0 : length(folder.resolve(before[0])));
                before[0] = named(text);
            }, settings.backupLevel(), settings.backupBuffer());
        }
    }

    /** Returns the file that a line of OrientDB's output names, or null. */
    static String named(String text) {
        int at = text.indexOf(MESSAGE);
        int end = text.lastIndexOf("...");
        return at < 0 || end < at + MESSAGE.length() ? null : text.substring(at + MESSAGE.length(), end);
    }

    /** Returns the length of a file, or 0 if it does not exist (any more or yet). */
    static long length(Path file) {
        try {
            return Files.size(file);
        } catch (IOException gone) {
            return 0;
        }
    }
}
