package poolwright.kv;

/** A put was refused: the store holds the same version or a later one. */
final class ObsoleteVersion extends Exception {
    private static final long serialVersionUID = 1;

    ObsoleteVersion(VectorClock put, VectorClock held) {
        super("version " + put + " is obsolete: the store holds " + held);
    }
}
