/** A recipe in use: one thread, or several, take turns with it until the program is told to end. Then it is checked. */
interface Recipe extends AutoCloseable {
    /** Takes one turn. An exception is an interruption, as clients see them when a connection is lost. */
    void turn() throws Exception;

    /** Names what must hold after all turns, and does not, by {@link Report#broken}. */
    default void check(Report report) throws Exception {}

    @Override
    default void close() throws Exception {}
}
