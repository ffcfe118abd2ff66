/** OrientDB: a graph imported from N-Triples, backed up, moved to an archive, and indexed by Lucene. */
package poolwright.orientdb;
