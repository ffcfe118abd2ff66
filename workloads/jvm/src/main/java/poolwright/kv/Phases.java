package poolwright.kv;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import poolwright.driver.Compressibility;
import poolwright.driver.Failure;
import poolwright.driver.Latencies;
import poolwright.driver.Progress;
import poolwright.driver.Report;
import poolwright.driver.Spec;

/** The phases: load, read (warm), read-cold, read-scanned, scan, mixed. Each opens the store in a separate process. */
final class Phases {
    private static final String ROLE = "db";
    /** Bytes of values whose entropy is reported. */
    private static final int SAMPLE = 1 << 20;
    private static final double NS_PER_S = 1e9;

    private final Plan plan;
    private final Path home;
    /** File in which read-cold stores its rate for the comparison by read-scanned. */
    private final Path coldRate;
    private final Report report;

    private Phases(Plan plan, Path home, Path scratch, Report report) {
        this.plan = plan;
        this.home = home;
        coldRate = scratch.resolve("cold-rate");
        this.report = report;
    }

    static void run(Spec spec, Report report) throws IOException, InterruptedException {
        Plan plan = Plan.of(spec);
        Phases phases = new Phases(plan, spec.path(ROLE), spec.scratch(), report);
        report.version(plan.settings().engine.title, plan.settings().engine.version());
        report.version("java", System.getProperty("java.runtime.version"));
        for (String line : plan.describe()) {
            report.log(line);
        }
        Rehearsal.run(plan, spec.scratch());
        // Collect the garbage of the rehearsal before anything is measured.
        System.gc();
        switch (spec.phase()) {
            case "load" -> phases.load();
            case "read" -> phases.withStore(store -> phases.readWarm(store));
            case "read-cold" -> phases.withStore(store -> phases.readCold(store));
            case "read-scanned" -> phases.withStore(store -> phases.readScanned(store));
            case "scan" -> phases.withStore(store -> phases.scanMeasured(store));
            case "mixed" -> phases.withStore(store -> phases.mixed(store));
            default -> throw new Failure("unknown phase '" + spec.phase()
                    + "'; there are load, read, read-cold, read-scanned, scan, mixed");
        }
    }

    @FunctionalInterface
    private interface Work {
        void run(Store store) throws IOException, InterruptedException;
    }

    /** Opens the store, and closes it so that its files contain all written data. */
    private void withStore(Work work) throws IOException, InterruptedException {
        long began = System.nanoTime();
        Store store = Store.open(home, plan.settings());
        report.figure("open_s", since(began), "s");
        try {
            work.run(store);
        } finally {
            long closing = System.nanoTime();
            store.close();
            sync(home.resolve(plan.settings().store));
            report.figure("close_s", since(closing), "s");
        }
    }

    private void load() throws IOException, InterruptedException {
        Compressibility.say(report, plan.data().sample(plan.entries(), SAMPLE));
        withStore(store -> {
            LongAdder bytes = new LongAdder();
            measured("puts", plan.entries(), progress -> Crew.run(plan, store, (thread, client) -> {
                long step = (long) plan.batch() * plan.threads();
                for (long first = (long) thread * plan.batch(); first < plan.entries(); first += step) {
                    long[] batch = LongStream.range(first, Math.min(first + plan.batch(), plan.entries())).toArray();
                    bytes.add(client.load(batch));
                    progress.add(batch.length);
                }
            }));
            report.figure("user_bytes", bytes.sum(), "bytes");
        });
    }

    /** Fills the caches with unmeasured reads first. */
    private void readWarm(Store store) throws InterruptedException {
        reads(store, plan.warmReads(), plan.readSeconds(), null);
        read(store);
    }

    private void readCold(Store store) throws IOException, InterruptedException {
        double rate = read(store, plan.coldReads(), Double.MAX_VALUE);
        Files.writeString(coldRate, Double.toString(rate));
    }

    /** Scans all entries first, which is not measured. */
    private void readScanned(Store store) throws IOException, InterruptedException {
        long began = System.nanoTime();
        long seen = scan(store, null);
        report.figure("scan_s", since(began), "s");
        if (seen != plan.entries()) {
            throw new Failure("the scan before the reads found " + seen + " entries of " + plan.entries());
        }
        double rate = read(store);
        if (Files.exists(coldRate)) {
            report.figure("scan_gain", rate / Double.parseDouble(Files.readString(coldRate)), "ratio");
        }
    }

    /** Returns the reads per second. */
    private double read(Store store) throws InterruptedException {
        return read(store, plan.reads(), plan.readSeconds());
    }

    private double read(Store store, long most, double seconds) throws InterruptedException {
        return measured("gets", most, progress -> reads(store, most, seconds, progress));
    }

    /** Reads uniformly drawn entries until the number of reads or the time is reached. */
    private Latencies reads(Store store, long most, double seconds, Progress progress) throws InterruptedException {
        AtomicLong left = new AtomicLong(most);
        long began = System.nanoTime();
        return Crew.run(plan, store, (thread, client) -> {
            while (since(began) < seconds && left.getAndDecrement() > 0) {
                client.read(client.random().nextLong(plan.entries()));
                if (progress != null) {
                    progress.add(1);
                }
            }
        });
    }

    private void scanMeasured(Store store) throws InterruptedException {
        measured("entries", plan.entries(), progress -> {
            scan(store, progress);
            return new Latencies();
        });
    }

    private static long scan(Store store, Progress progress) {
        AtomicLong seen = new AtomicLong();
        store.iterate((key, versions) -> {
            seen.incrementAndGet();
            if (progress != null) {
                progress.add(1);
            }
        });
        return seen.get();
    }

    /** Reads, puts and deletes random entries; the next put of a deleted key adds it again. */
    private void mixed(Store store) throws InterruptedException {
        if (plan.warmSeconds() > 0) {
            long most = plan.warmReads() > 0 ? plan.warmReads() : Long.MAX_VALUE;
            operations(store, most, plan.warmSeconds(), null);
        }
        measured("operations", plan.reads(), progress -> operations(store, plan.reads(), plan.readSeconds(), progress));
    }

    private Latencies operations(Store store, long most, double seconds, Progress progress) throws InterruptedException {
        AtomicLong left = new AtomicLong(most);
        long began = System.nanoTime();
        return Crew.run(plan, store, (thread, client) -> {
            while (since(began) < seconds && left.getAndDecrement() > 0) {
                operate(client, client.random());
                if (progress != null) {
                    progress.add(1);
                }
            }
        });
    }

    private void operate(Client client, SplittableRandom random) {
        long number = random.nextLong(plan.entries());
        double drawn = random.nextDouble();
        if (drawn < plan.puts()) {
            client.update(number);
        } else if (drawn < plan.puts() + plan.deletes()) {
            client.delete(number);
        } else {
            client.look(number);
        }
    }

    @FunctionalInterface
    private interface Measured {
        Latencies run(Progress progress) throws InterruptedException;
    }

    /** Reports the measured window, the progress and the results; returns the rate. */
    private double measured(String unit, long of, Measured work) throws InterruptedException {
        report.start();
        long began = System.nanoTime();
        Progress progress = new Progress(report, of, unit);
        Latencies latencies;
        try (progress) {
            latencies = work.run(progress);
        }
        double rate = progress.done() / since(began);
        report.stop();
        report.figure(unit + "_per_s", rate, "1/s");
        latencies.say(report);
        sayMemory();
        return rate;
    }

    /** Reports the process's memory: anonymous (heaps, write buffers, block caches), and of mapped files (LMDB's pages). */
    private void sayMemory() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                String[] words = line.split("\\s+");
                switch (words[0]) {
                    case "RssAnon:" -> report.figure("memory_anonymous", Long.parseLong(words[1]) * 1024, "bytes");
                    case "RssFile:" -> report.figure("memory_of_files", Long.parseLong(words[1]) * 1024, "bytes");
                    default -> { }
                }
            }
        } catch (IOException error) {
            throw new Failure("cannot read /proc/self/status", error);
        }
    }

    /** Syncs the files, because engines do not when they are closed, and the sizes are read afterwards. */
    private static void sync(Path directory) throws IOException {
        List<Path> files;
        try (Stream<Path> found = Files.walk(directory)) {
            files = found.filter(Files::isRegularFile).toList();
        }
        for (Path file : files) {
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                channel.force(true);
            }
        }
    }

    private static double since(long began) {
        return (System.nanoTime() - began) / NS_PER_S;
    }
}
