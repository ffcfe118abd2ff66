package poolwright.orientdb;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import poolwright.driver.Compressibility;
import poolwright.driver.Progress;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** Provides a database for later phases: imported once into the cache for each seed, and copied from there. */
final class Load {
    private static final List<String> ROLES = List.of("data", "wal");

    private final Spec spec;
    private final Settings settings;
    private final Report report;

    Load(Spec spec, Settings settings, Report report) {
        this.spec = spec;
        this.settings = settings;
        this.report = report;
    }

    void run() throws IOException {
        Path made = spec.cache().resolve(name());
        if (!Files.exists(made)) {
            make(made);
        }
        Compressibility.say(report, Import.input(spec, settings).sample());
        report.start();
        try (Progress progress = new Progress(report, Folder.bytes(made), "bytes")) {
            for (String role : ROLES) {
                copy(made.resolve(role), spec.path(role), progress);
            }
        }
        for (String role : ROLES) {
            Folder.sync(spec.path(role));
        }
        report.stop();
    }

    /** Returns a name that contains everything on which the database depends. */
    private String name() throws IOException {
        String input = settings.file().isEmpty()
                ? settings.vertices() + "-" + settings.edges() + "-" + spec.seed()
                : Integer.toHexString(settings.file().hashCode()) + "-" + Files.size(Path.of(settings.file())) + "-" + settings.edges();
        return "database-" + input + "-" + settings.batch() + "-v" + settings.clusterVersion() + "-" + settings.compression();
    }

    private void make(Path made) throws IOException {
        Files.createDirectories(spec.cache());
        Path unfinished = Files.createTempDirectory(spec.cache(), "database-");
        for (String role : ROLES) {
            Files.createDirectory(unfinished.resolve(role));
        }
        Map<String, Path> paths = Map.of("data", unfinished.resolve("data"), "wal", unfinished.resolve("wal"));
        Spec inCache = new Spec(
                "import", spec.parameters(), paths, spec.scratch(), spec.cache(), spec.tools(), spec.seed());
        // The figures of this import are those of the cache's disk, and irrelevant.
        Report unheard = new Report(new PrintStream(OutputStream.nullOutputStream()));
        new Import(inCache, settings, unheard).run();
        Files.move(unfinished, made, StandardCopyOption.ATOMIC_MOVE);
    }

    private static void copy(Path from, Path to, Progress progress) throws IOException {
        try (Stream<Path> all = Files.walk(from)) {
            for (Path file : (Iterable<Path>) all::iterator) {
                Path target = to.resolve(from.relativize(file).toString());
                if (Files.isDirectory(file)) {
                    Files.createDirectories(target);
                } else {
                    Files.copy(file, target);
                    progress.add(Files.size(file));
                }
            }
        }
    }
}
