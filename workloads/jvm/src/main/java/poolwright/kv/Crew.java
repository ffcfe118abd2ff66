package poolwright.kv;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import poolwright.driver.Latencies;

/** Threads that do one kind of work at once. */
final class Crew {
    /** The work of one thread, counted from 0. */
    @FunctionalInterface
    interface Work {
        void run(int thread, Client client);
    }

    private Crew() {}

    /** Runs the work on the plan's threads; the latencies of all, or the first failure. */
    static Latencies run(Plan plan, Store store, Work work) throws InterruptedException {
        ExecutorService threads = Executors.newFixedThreadPool(plan.threads());
        try {
            List<Future<Latencies>> running = new ArrayList<>();
            for (int number = 0; number < plan.threads(); number++) {
                int thread = number;
                running.add(threads.submit(() -> {
                    Latencies own = new Latencies();
                    work.run(thread, new Client(store, plan.data(), DataSet.random(plan.seed(), -1, thread), own));
                    return own;
                }));
            }
            Latencies all = new Latencies();
            for (Future<Latencies> one : running) {
                all.add(one.get());
            }
            return all;
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof RuntimeException exception) {
                throw exception;
            }
            throw new IllegalStateException(failed.getCause());
        } finally {
            threads.shutdownNow();
        }
    }
}
