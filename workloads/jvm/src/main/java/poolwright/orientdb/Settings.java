package poolwright.orientdb;

import com.orientechnologies.orient.core.config.OGlobalConfiguration;
import java.nio.file.Path;
import java.util.Set;
import poolwright.driver.Failure;
import poolwright.driver.Parameters;

/**
 * The parameters of this driver.
 *
 * @param file N-Triples to import; if empty, they are generated
 * @param vertices number of vertices of the generated graph
 * @param edges number of edges of the generated graph, or of triples of the file; 0 for all triples of the file
 * @param batch number of triples in a transaction
 * @param remote whether to use the binary protocol of a server in this process, as in the report, instead of embedding
 * @param compression OrientDB's compression of records: nothing, gzip, low-zip, high-zip
 * @param clusterVersion version of the files of records; version 2, the default, does not support compression
 * @param walCompressionFrom bytes from which OrientDB compresses a record of the WAL with lz4; 0 for never
 * @param cache bytes of OrientDB's page cache
 * @param walMost bytes of WAL from which OrientDB makes a checkpoint
 * @param walSegment bytes of a file of the WAL
 * @param keepWal whether to keep the WAL after the import, and not to close the database
 * @param backupLevel compression level of the backup: 0 to 9
 * @param backupBuffer bytes in each write of a backup
 * @param luceneDirectory how Lucene reads: mmap, nio
 * @param analyzer how Lucene divides names into words: standard, for which an underscore joins, or simple, for which it separates
 * @param linesEvery seconds between two progress lines of an index
 * @param searches number of queries in the search phase
 * @param neighbour whether another user of the disks writes beside the import
 */
record Settings(
        String file,
        int vertices,
        int edges,
        int batch,
        boolean remote,
        String compression,
        int clusterVersion,
        int walCompressionFrom,
        long cache,
        long walMost,
        long walSegment,
        boolean keepWal,
        int backupLevel,
        int backupBuffer,
        String luceneDirectory,
        String analyzer,
        double linesEvery,
        int searches,
        boolean neighbour) {
    // "heap" and "compiler" are used by the program that starts the virtual machine.
    private static final Set<String> KNOWN = Set.of(
            "file", "vertices", "edges", "batch", "access", "compression", "cluster_version", "wal_compression_from", "cache",
            "wal_most", "wal_segment", "keep_wal", "backup_level", "backup_buffer", "lucene_directory", "analyzer", "lines_every",
            "searches", "neighbour", "heap", "compiler");
    private static final long MIB = 1 << 20;

    static Settings of(Parameters given) {
        given.only(KNOWN);
        Settings settings = new Settings(
                given.text("file", ""),
                Math.toIntExact(given.count("vertices", 20_000)),
                Math.toIntExact(given.count("edges", 29_486)),
                Math.toIntExact(given.count("batch", 1)),
                given.oneOf("access", "embedded", "embedded", "remote").equals("remote"),
                given.oneOf("compression", "nothing", "nothing", "gzip", "low-zip", "high-zip"),
                Math.toIntExact(given.count("cluster_version", 2)),
                Math.toIntExact(given.size("wal_compression_from", "8K")),
                given.size("cache", "512M"),
                given.size("wal_most", "4G"),
                given.size("wal_segment", "128M"),
                given.flag("keep_wal", false),
                Math.toIntExact(given.count("backup_level", 0)),
                Math.toIntExact(given.size("backup_buffer", "1M")),
                given.oneOf("lucene_directory", "mmap", "mmap", "nio"),
                given.oneOf("analyzer", "standard", "standard", "simple"),
                given.number("lines_every", 10),
                Math.toIntExact(given.count("searches", 1000)),
                given.flag("neighbour", false));
        if (settings.batch < 1) {
            throw new Failure("batch, the number of triples in a transaction, must be at least 1");
        }
        if (settings.clusterVersion == 2 && !settings.compression.equals("nothing")) {
            throw new Failure("OrientDB 3.2 ignores compression in clusters of version 2; add cluster_version = 1");
        }
        return settings;
    }

    /** Configures OrientDB; call it before OrientDB is started. */
    void apply(Path wal) {
        OGlobalConfiguration.WAL_LOCATION.setValue(wal.toString());
        OGlobalConfiguration.WAL_MAX_SIZE.setValue((int) (walMost / MIB));
        OGlobalConfiguration.WAL_MAX_SEGMENT_SIZE.setValue((int) (walSegment / MIB));
        // As in OrientDB 1.7: the log grows to its limit, and is not truncated at each new file.
        OGlobalConfiguration.WAL_KEEP_SINGLE_SEGMENT.setValue(false);
        OGlobalConfiguration.WAL_MIN_COMPRESSED_RECORD_SIZE.setValue(walCompressionFrom);
        OGlobalConfiguration.STORAGE_COMPRESSION_METHOD.setValue(compression);
        OGlobalConfiguration.STORAGE_CLUSTER_VERSION.setValue(clusterVersion);
        OGlobalConfiguration.DISK_CACHE_SIZE.setValue((int) (cache / MIB));
    }
}
