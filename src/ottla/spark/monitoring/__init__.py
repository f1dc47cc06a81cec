"""What streaming queries do, seen: on the terminal, as metrics, as a page. `ottla.spark.watch` begins it."""
