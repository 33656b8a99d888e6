"""The past of the database: questions that processes answer, and what a viewer sees of the answers."""
