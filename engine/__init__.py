"""Run business processes: read their models, evaluate their expressions, and decide what each step does next."""
