package poolwright.kv;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import poolwright.driver.Latencies;

/** Threads that do the same kind of work concurrently. */
final class Crew {
    /** The work of one thread; threads are numbered from 0. */
    @FunctionalInterface
    interface Work {
        void run(int thread, Client client);
    }

    private Crew() {}

    /**
     * Runs the work on the plan's threads. Returns the latencies of all threads, or throws the first failure. No thread uses the
     * store after it returns: closing an engine in C during a read would crash the virtual machine.
     */
    static Latencies run(Plan plan, Store store, Work work) throws InterruptedException {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Latencies> each = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(plan.threads());
        for (int number = 0; number < plan.threads(); number++) {
            int thread = number;
            Latencies own = new Latencies();
            each.add(own);
            threads.execute(() -> {
                try {
                    work.run(thread, new Client(store, plan.data(), DataSet.random(plan.seed(), -1, thread), own, failure));
                } catch (Throwable thrown) {
                    failure.compareAndSet(null, thrown);
                }
            });
        }
        threads.shutdown();
        threads.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
        if (failure.get() instanceof RuntimeException exception) {
            throw exception;
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        Latencies all = new Latencies();
        each.forEach(all::add);
        return all;
    }
}
