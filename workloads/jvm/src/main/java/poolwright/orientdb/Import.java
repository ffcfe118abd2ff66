package poolwright.orientdb;

import com.orientechnologies.orient.core.db.ODatabaseSession;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.HdrHistogram.Histogram;
import poolwright.driver.Compressibility;
import poolwright.driver.Failure;
import poolwright.driver.Latencies;
import poolwright.driver.Progress;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** Reads triples and builds a graph from them in an empty database. */
final class Import {
    private static final double S = 1e9;

    private final Spec spec;
    private final Settings settings;
    private final Report report;
    private final Latencies latencies = new Latencies();

    Import(Spec spec, Settings settings, Report report) {
        this.spec = spec;
        this.settings = settings;
        this.report = report;
    }

    void run() throws IOException {
        Triples triples = input(spec, settings);
        Compressibility.say(report, triples.sample());
        Triples.Shape shape = triples.shape();
        Database database = Database.create(spec, settings);
        measure(database, triples, shape);
        if (settings.keepWal()) {
            database.abandon();
        } else {
            database.close();
            Folder.sync(spec.path("data"));
            Folder.sync(spec.path("wal"));
        }
    }

    /** Returns the triples of the trial's seed. */
    static Triples input(Spec spec, Settings settings) throws IOException {
        return input(spec, settings, spec.seed());
    }

    /** Returns the given file, or a generated one, created once for all trials with this seed. */
    static Triples input(Spec spec, Settings settings, long seed) throws IOException {
        if (!settings.file().isEmpty()) {
            return new Triples(Path.of(settings.file()), settings.edges());
        }
        Path file = spec.cache().resolve(
                "article-categories-" + settings.vertices() + "-" + settings.edges() + "-" + seed + ".nt");
        if (!Files.exists(file)) {
            Files.createDirectories(spec.cache());
            Path unfinished = Files.createTempFile(spec.cache(), "article-categories-", ".tmp");
            new TripleGenerator(settings.vertices(), settings.edges(), seed).write(unfinished);
            Folder.sync(unfinished);
            Files.move(unfinished, file, StandardCopyOption.ATOMIC_MOVE);
        }
        return new Triples(file, 0);
    }

    /** {@code import_s} is the time that the report measured: until the last transaction is committed. */
    private void measure(Database database, Triples triples, Triples.Shape shape) throws IOException {
        try (ODatabaseSession session = database.session();
                Neighbour neighbour = settings.neighbour() ? new Neighbour(spec, triples.sample()) : null) {
            Graph graph = new Graph(session);
            graph.makeSchema();
            report.start();
            if (neighbour != null) {
                neighbour.start();
            }
            long began = System.nanoTime();
            load(database, graph, triples, shape.edges());
            long loaded = System.nanoTime();
            database.flush(settings.keepWal());
            long flushed = System.nanoTime();
            report.stop();
            report.figure("import_s", (loaded - began) / S, "s");
            report.figure("flush_s", (flushed - loaded) / S, "s");
            report.figure("triples_per_s", shape.edges() / ((loaded - began) / S), "1/s");
            report.figure("wal_length", database.walBytes(), "bytes");
            report.figure("data_length", database.dataBytes(), "bytes");
            latencies.say(report);
            if (neighbour != null) {
                neighbour.end();
                neighbour.say(report);
            }
            session.activateOnCurrentThread();
            check(graph, shape);
        }
    }

    private void load(Database database, Graph graph, Triples triples, long of) throws IOException {
        Histogram times = latencies.of(settings.batch() == 1 ? "triple" : "transaction");
        long[] begun = {0};
        long[] said = {System.nanoTime()};
        try (Progress progress = new Progress(report, of, "triples")) {
            long[] open = {0};
            triples.forEach(triple -> {
                if (open[0] == 0) {
                    begun[0] = System.nanoTime();
                    graph.begin();
                }
                graph.add(triple);
                if (++open[0] == settings.batch()) {
                    graph.commit();
                    times.recordValue(System.nanoTime() - begun[0]);
                    open[0] = 0;
                    sayWal(database, said);
                }
                progress.add(1);
            });
            if (open[0] > 0) {
                graph.commit();
                times.recordValue(System.nanoTime() - begun[0]);
            }
        }
    }

    /** Reports the length of the WAL once a second. */
    private void sayWal(Database database, long[] said) throws IOException {
        long now = System.nanoTime();
        if (now - said[0] > S) {
            report.series("wal_length", database.walBytes(), "bytes");
            said[0] = now;
        }
    }

    /** Checks the counts: a failed look-up would have created a duplicate vertex, or violated the unique index. */
    private void check(Graph graph, Triples.Shape shape) {
        report.figure("vertices", graph.vertices(), "count");
        report.figure("edges", graph.edges(), "count");
        if (graph.vertices() != shape.vertices() || graph.edges() != shape.edges()) {
            throw new Failure("the database has " + graph.vertices() + " vertices and " + graph.edges()
                    + " edges, but the triples have " + shape.vertices() + " and " + shape.edges());
        }
    }
}
