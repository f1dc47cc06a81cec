/** What a scenario has seen to hold; the first thing that does not ends it. */
final class Check {
    private Check() {}

    static void that(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
        System.out.println("checked: " + what);
    }

    static void equal(Object expected, Object found, String what) {
        if (!java.util.Objects.equals(expected, found))
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        System.out.println("checked: " + what);
    }

    /** The class of the error that an operation ends with; null when it succeeds. */
    static Class<?> failure(java.util.concurrent.Callable<?> operation) {
        try {
            operation.call();
            return null;
        } catch (java.util.concurrent.ExecutionException error) {
            return error.getCause().getClass();
        } catch (Exception error) {
            return error.getClass();
        }
    }
}
