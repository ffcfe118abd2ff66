package poolwright.kv;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import poolwright.driver.Failure;
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
        if (!plan.remote()) {
            return run(plan, work, use -> use.accept(store));
        }
        try (StoreServer server = new StoreServer(store, plan.scratch())) {
            return run(plan, work, use -> {
                try (RemoteStore own = server.connect()) {
                    use.accept(own);
                }
            });
        } catch (IOException problem) {
            throw new Failure("cannot serve the store on a socket", problem);
        }
    }

    /** Gives a thread its access to the store, as long as it is used. */
    @FunctionalInterface
    private interface Accesses {
        void use(Consumer<StoreAccess> use) throws IOException;
    }

    private static Latencies run(Plan plan, Work work, Accesses accesses) throws InterruptedException {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Latencies> each = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(plan.threads());
        for (int number = 0; number < plan.threads(); number++) {
            int thread = number;
            Latencies own = new Latencies();
            each.add(own);
            threads.execute(() -> {
                try {
                    accesses.use(store -> work.run(
                            thread, new Client(store, plan.data(), DataSet.random(plan.seed(), -1, thread), own, failure)));
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
