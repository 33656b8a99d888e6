"""Reads: `spark.read` and `spark.readStream`, from options and offsets over the plan
(`task_plan.py`) to rows."""
