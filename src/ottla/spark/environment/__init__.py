"""The environment of Spark: SPARK_HOME, a cache for Java, Python workers, sockets, archives for clusters, support for
older versions of Spark.
"""
