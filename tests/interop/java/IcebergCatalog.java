import java.util.Map;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Serves Iceberg's REST catalog, with its tables in memory, until the input ends. Prints the port. */
class IcebergCatalog {
    public static void main(String[] arguments) throws Exception {
        InMemoryCatalog catalog = new InMemoryCatalog();
        catalog.initialize("test", Map.of("warehouse", "s3://tier"));
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        Server server = new Server(0);
        server.setHandler(context);
        server.start();
        System.out.println(((ServerConnector) server.getConnectors()[0]).getLocalPort());
        while (System.in.read() >= 0) {}
        server.stop();
        System.exit(0);
    }
}
