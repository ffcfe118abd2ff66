package poolwright.orientdb;

import com.orientechnologies.orient.core.db.ODatabaseSession;
import java.io.IOException;
import poolwright.driver.Failure;
import poolwright.driver.Progress;
import poolwright.driver.Report;

/** Imports triples in its own thread, in transactions. */
final class GrowingGraph extends Thread {
    private static final double S = 1e9;

    private final Database database;
    private final Triples triples;
    private final int batch;
    private final Progress progress;
    private volatile Exception failed;
    private long added;
    private long began;
    private long ended;

    GrowingGraph(Database database, Triples triples, int batch, Progress progress) {
        super("importer");
        this.database = database;
        this.triples = triples;
        this.batch = batch;
        this.progress = progress;
    }

    @Override
    public void run() {
        try (ODatabaseSession session = database.local()) {
            Graph graph = new Graph(session);
            began = System.nanoTime();
            triples.forEach(triple -> add(graph, triple));
            if (added % batch != 0) {
                graph.commit();
            }
        } catch (IOException | RuntimeException problem) {
            failed = problem;
        }
        ended = System.nanoTime();
    }

    private void add(Graph graph, Triple triple) {
        if (added % batch == 0) {
            graph.begin();
        }
        graph.add(triple);
        added++;
        progress.add(1);
        if (added % batch == 0) {
            graph.commit();
        }
    }

    /** Reports the rate of the ended thread. */
    void say(Report report) {
        if (failed != null) {
            throw new Failure("the import beside the searches failed: " + failed);
        }
        report.figure("triples_per_s", added / ((ended - began) / S), "1/s");
    }
}
