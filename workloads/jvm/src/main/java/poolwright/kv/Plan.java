package poolwright.kv;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import poolwright.driver.Failure;
import poolwright.driver.Parameters;
import poolwright.driver.Sizes;
import poolwright.driver.Spec;

/**
 * The work of a phase, from the campaign's parameters.
 *
 * @param settings the settings of the store under test
 * @param given the settings as named in the parameters, for a store beside it
 * @param data the entries
 * @param entries number of entries: the parameter entries, multiplied by share
 * @param threads number of concurrent threads
 * @param batch number of entries in a put of the load
 * @param warmReads reads before the measured ones in the phases that warm up; operations of the mixed phase, 0 for no limit
 * @param reads measured reads, or operations of the mixed phase
 * @param coldReads reads of the cold phase, however long they take, so that rates are of equally many reads
 * @param readSeconds time limit in seconds of the other reads
 * @param warmSeconds seconds of the mixed phase before it is measured; it ends earlier after warmReads operations
 * @param puts share of puts in the mixed phase
 * @param deletes share of deletes in the mixed phase
 * @param remote whether the threads use the store through a socket
 * @param scratch directory of the socket
 * @param seed seed of all random choices
 */
record Plan(
        Settings settings,
        Map<String, String> given,
        DataSet data,
        long entries,
        int threads,
        int batch,
        long warmReads,
        long reads,
        long coldReads,
        double readSeconds,
        double warmSeconds,
        double puts,
        double deletes,
        boolean remote,
        Path scratch,
        long seed) {
    private static final Set<String> KNOWN = Set.of(
            "engine", "store", "entries", "data", "value", "keys", "memory", "threads", "batch", "warm_reads", "reads",
            "cold_reads", "read_seconds", "warm_seconds", "puts", "deletes", "share", "access",
            // Used by the program that starts this one.
            "heap", "compiler");
    /** Smallest accepted cache in bytes. */
    private static final long LEAST_CACHE = 1 << 20;

    static Plan of(Spec spec) {
        Parameters parameters = spec.parameters();
        Map<String, String> given = engineSettings(parameters);
        EngineKind engine = EngineKind.of(parameters.text("engine", "leveldb"));
        String store = parameters.text("store", "test");
        shareMemory(engine, store, parameters, given);
        Plan plan = new Plan(
                new Settings(engine, store, given),
                given,
                DataSet.of(parameters, spec.seed()),
                Math.round(parameters.count("entries", 10_000) * parameters.number("share", 1)),
                Math.toIntExact(parameters.count("threads", 2)),
                Math.toIntExact(parameters.count("batch", 1)),
                parameters.count("warm_reads", 0),
                parameters.count("reads", 10_000),
                parameters.count("cold_reads", parameters.count("reads", 10_000)),
                parameters.number("read_seconds", Double.MAX_VALUE),
                parameters.number("warm_seconds", 0),
                parameters.number("puts", 0.15),
                parameters.number("deletes", 0.05),
                parameters.oneOf("access", "embedded", "embedded", "remote").equals("remote"),
                spec.scratch(),
                spec.seed());
        if (plan.entries == 0 || plan.threads == 0 || plan.batch == 0) {
            throw new Failure("entries, threads and batch must be at least 1");
        }
        if (plan.puts < 0 || plan.deletes < 0 || plan.puts + plan.deletes > 1) {
            throw new Failure("puts and deletes are shares of the operations; their sum must be at most 1");
        }
        return plan;
    }

    /** Returns the parameters that begin with an engine's name; all others must be known. */
    private static Map<String, String> engineSettings(Parameters parameters) {
        Map<String, String> given = new HashMap<>();
        Set<String> known = new HashSet<>(KNOWN);
        for (EngineKind engine : EngineKind.values()) {
            String prefix = engine.word + ".";
            parameters.beginning(prefix).forEach((rest, value) -> given.put(prefix + rest, value));
        }
        known.addAll(given.keySet());
        parameters.only(known);
        return given;
    }

    /**
     * Gives the engine {@code memory} bytes in total: the cache gets what the write buffers do not use. LMDB has no such
     * setting; its pages are in the system's page cache.
     */
    private static void shareMemory(EngineKind engine, String store, Parameters parameters, Map<String, String> given) {
        String text = parameters.text("memory", "");
        if (text.isEmpty() || !Setting.BLOCK_CACHE.by(engine).honoured()) {
            return;
        }
        String cacheName = engine.word + "." + Setting.BLOCK_CACHE.word;
        if (given.containsKey(cacheName)) {
            throw new Failure("memory and " + cacheName + " must not both be set:"
                    + " the cache gets the part of memory that the write buffers do not use");
        }
        long cache = Sizes.parse("memory", text);
        if (Setting.WRITE_BUFFER.by(engine).honoured()) {
            cache -= 2 * new Settings(engine, store, given).number(Setting.WRITE_BUFFER);
        }
        if (cache < LEAST_CACHE) {
            throw new Failure("memory=" + text + " leaves no cache beside the write buffers of " + engine.title
                    + "; set " + engine.word + "." + Setting.WRITE_BUFFER.word);
        }
        given.put(cacheName, bytes(cache));
    }

    /** Formats bytes for a setting in megabytes. */
    private static String bytes(long bytes) {
        return bytes / 1024 + "K";
    }

    /** Returns the same settings for a store beside the one under test, except those about its existence. */
    Settings rehearsal() {
        Map<String, String> changed = new HashMap<>(given);
        String prefix = settings.engine.word + "." + Rehearsal.STORE + ".";
        changed.put(prefix + Setting.CREATE_IF_MISSING.word, "true");
        changed.put(prefix + Setting.ERROR_IF_EXISTS.word, "false");
        return new Settings(settings.engine, Rehearsal.STORE, changed);
    }

    /** Returns the lines about the settings for the trial's log. */
    String[] describe() {
        return new String[] {
            settings.engine.title + ", store " + settings.store + ": " + String.join(", ", settings.used()),
            "not used by " + settings.engine.title + ": "
                    + (settings.unused().isEmpty() ? "nothing" : String.join(", ", settings.unused()))
        };
    }
}
