package poolwright.orientdb;

import com.orientechnologies.orient.core.db.ODatabaseSession;
import com.orientechnologies.orient.core.metadata.schema.OClass;
import com.orientechnologies.orient.core.metadata.schema.OType;
import com.orientechnologies.orient.core.record.OEdge;
import com.orientechnologies.orient.core.record.OVertex;
import com.orientechnologies.orient.core.sql.executor.OResultSet;

/** The report's graph: vertices "Nodo" with a unique index on their name, and edges "Arco" with a name. */
final class Graph {
    static final String VERTEX = "Nodo";
    static final String EDGE = "Arco";
    static final String NAME = "name";
    private static final String LOOK_UP = "select from " + VERTEX + " where " + NAME + " = ?";

    private final ODatabaseSession session;

    Graph(ODatabaseSession session) {
        this.session = session;
    }

    void makeSchema() {
        OClass vertex = session.createVertexClass(VERTEX);
        vertex.createProperty(NAME, OType.STRING);
        vertex.createIndex(VERTEX + "_" + NAME, OClass.INDEX_TYPE.UNIQUE, NAME);
        session.createEdgeClass(EDGE).createProperty(NAME, OType.STRING);
    }

    void begin() {
        session.begin();
    }

    void commit() {
        session.commit();
    }

    /** Looks up both vertices, creates the missing ones, and adds the edge. */
    void add(Triple triple) {
        OVertex from = vertex(triple.subject());
        OVertex to = vertex(triple.object());
        OEdge edge = from.addEdge(to, EDGE);
        edge.setProperty(NAME, triple.predicate());
        edge.save();
    }

    long vertices() {
        return session.countClass(VERTEX);
    }

    long edges() {
        return session.countClass(EDGE);
    }

    private OVertex vertex(String name) {
        try (OResultSet found = session.query(LOOK_UP, name)) {
            if (found.hasNext()) {
                return found.next().getVertex().orElseThrow();
            }
        }
        OVertex vertex = session.newVertex(VERTEX);
        vertex.setProperty(NAME, name);
        vertex.save();
        return vertex;
    }
}
