"""Jobs: their definitions, the statements that begin and end a run, and what became of the last runs."""
