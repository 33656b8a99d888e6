"""Reads: what Spark calls for `spark.read` and `spark.readStream`, from options and offsets over the plan to rows."""
