package poolwright.orientdb;

import com.orientechnologies.common.listener.OProgressListener;
import com.orientechnologies.orient.core.db.ODatabaseSession;
import com.orientechnologies.orient.core.metadata.schema.OClass;
import com.orientechnologies.orient.core.record.impl.ODocument;
import com.orientechnologies.orient.core.sql.executor.OResultSet;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import poolwright.driver.Failure;
import poolwright.driver.Latencies;
import poolwright.driver.Progress;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** The full-text index over the names in the dataset "lucene": its creation, and searches. */
final class Lucene {
    private static final String INDEX = Graph.VERTEX + ".content";
    // OrientDB's name for the directory of its Lucene indexes.
    private static final String FOLDER = "luceneIndexes";
    private static final String SEARCH = "select from " + Graph.VERTEX + " where search_index('" + INDEX + "', ?) = true";
    private static final Map<String, String> ANALYZERS = Map.of(
            "standard", "org.apache.lucene.analysis.standard.StandardAnalyzer",
            "simple", "org.apache.lucene.analysis.core.SimpleAnalyzer");
    private static final double S = 1e9;

    private final Spec spec;
    private final Settings settings;
    private final Report report;

    Lucene(Spec spec, Settings settings, Report report) {
        this.spec = spec;
        this.settings = settings;
        this.report = report;
    }

    /** {@code index_s} is the time that the report measured: until the index is created. */
    void create() throws IOException {
        try (Database database = Database.open(spec, settings)) {
            link(database.folder().resolve(FOLDER), spec.path("lucene"));
            try (ODatabaseSession session = database.local()) {
                OClass vertices = session.getMetadata().getSchema().getClass(Graph.VERTEX);
                long items = session.countClass(Graph.VERTEX);
                ODocument how = new ODocument()
                        .field("directory_type", settings.luceneDirectory())
                        .field("analyzer", ANALYZERS.get(settings.analyzer()));
                report.start();
                long began = System.nanoTime();
                try (Progress progress = new Progress(report, items, "items")) {
                    vertices.createIndex(INDEX, "FULLTEXT", new Lines(items, progress), how, "LUCENE", new String[] {Graph.NAME});
                }
                long made = System.nanoTime();
                database.flush(false);
                Folder.sync(spec.path("lucene"));
                report.stop();
                report.figure("index_s", (made - began) / S, "s");
                report.figure("items_per_s", items / ((made - began) / S), "1/s");
                report.figure("index_length", length(), "bytes");
                session.activateOnCurrentThread();
            }
        }
    }

    /** Checks for files, because OrientDB silently creates an index in memory if it cannot create files. */
    private long length() throws IOException {
        long length = Folder.bytes(spec.path("lucene"));
        if (length == 0) {
            throw new Failure("OrientDB created its index in memory and not in " + spec.path("lucene") + "; see its log");
        }
        return length;
    }

    /** Creates a symbolic link, because OrientDB expects the index in the directory of the database. */
    private static void link(Path link, Path dataset) throws IOException {
        if (!Files.exists(link, LinkOption.NOFOLLOW_LINKS)) {
            Files.createSymbolicLink(link, dataset.toRealPath());
        }
    }

    /** Looks up names by their words. Every search must have a result, because the names are those of vertices. */
    void search() throws IOException {
        List<String> names = names();
        Latencies latencies = new Latencies();
        try (Database database = Database.open(spec, settings); ODatabaseSession session = database.local()) {
            report.start();
            try (Progress progress = new Progress(report, names.size(), "searches")) {
                for (String name : names) {
                    time(session, name, latencies);
                    progress.add(1);
                }
            }
            report.stop();
        }
        latencies.say(report);
    }

    /** Searches while a thread imports further triples, whose names OrientDB adds to the index; ends with the import. */
    void searchDuringImport() throws IOException, InterruptedException {
        List<String> names = names();
        Triples further = Import.input(spec, settings, spec.seed() + 1);
        long edges = further.shape().edges();
        Latencies latencies = new Latencies();
        try (Database database = Database.open(spec, settings); ODatabaseSession session = database.local()) {
            report.start();
            try (Progress progress = new Progress(report, edges, "triples")) {
                GrowingGraph growing = new GrowingGraph(database, further, settings.batch(), progress);
                growing.start();
                try {
                    session.activateOnCurrentThread();
                    for (int at = 0; growing.isAlive(); at = (at + 1) % names.size()) {
                        time(session, names.get(at), latencies);
                    }
                } finally {
                    growing.join();
                }
                report.stop();
                growing.say(report);
            }
            latencies.say(report);
        }
    }

    private List<String> names() throws IOException {
        return Import.input(spec, settings).draw(settings.searches(), new Random(spec.seed()));
    }

    private static void time(ODatabaseSession session, String name, Latencies latencies) {
        long began = System.nanoTime();
        find(session, term(name), name);
        latencies.of("search").recordValue(System.nanoTime() - began);
    }

    private static void find(ODatabaseSession session, String term, String name) {
        try (OResultSet found = session.query(SEARCH, term)) {
            if (!found.hasNext()) {
                throw new Failure("Lucene does not find " + name + " by " + term + ", which is indexed");
            }
            found.next().getProperty(Graph.NAME);
        }
    }

    /** Returns the last part of the name as a quoted phrase, in which no character is an operator. */
    static String term(String name) {
        String last = name.substring(name.lastIndexOf('/') + 1, name.length() - 1);
        return '"' + last.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /** Counts indexed items, and prints the lines that OrientDB 1.7 printed when it built an index. */
    private final class Lines implements OProgressListener {
        private final long items;
        private final Progress progress;
        private final long began = System.nanoTime();
        private long said = began;
        private long saidItems;

        Lines(long items, Progress progress) {
            this.items = items;
            this.progress = progress;
        }

        @Override
        public void onBegin(Object task, long total, Object rebuild) {
            say("Building index %s.%s (estimated %,d items)...", Database.NAME, INDEX, items);
        }

        @Override
        public boolean onProgress(Object task, long counter, float percent) {
            progress.add(counter - progress.done());
            long now = System.nanoTime();
            double elapsed = (now - said) / S;
            if (elapsed >= settings.linesEvery()) {
                say("--> %.2f%% progress, %,d indexed so far (%,.0f items/sec)",
                        100.0 * counter / items, counter, (counter - saidItems) / elapsed);
                said = now;
                saidItems = counter;
            }
            return true;
        }

        @Override
        public void onCompletition(Object task, boolean succeed) {
            if (!succeed) {
                throw new Failure("OrientDB cannot create the index (see above)");
            }
            say("--> OK, indexed %,d items in %,d ms", progress.done(), (System.nanoTime() - began) / 1_000_000);
        }

        private void say(String form, Object... values) {
            report.log(String.format(Locale.ROOT, form, values));
        }
    }
}
