"""How many records a consumer takes at once: as many as its work does in about a second."""

TARGET_S = 1.0
RECORDS_MAX = 5_000
GROWTH = 4.0  # from one record to 5,000 in seven batches; no batch takes much longer than the one before


class Pace:
    """Follow a consumer's work: begin with one record, because it is not known yet how long one takes."""

    def __init__(self, records_max: int = RECORDS_MAX) -> None:
        self.records = 1
        self._records_max = records_max

    def done(self, records: int, took_s: float) -> None:
        """Learn how long the work on a batch took; a batch that was not full is no reason for smaller ones."""
        fitting = records * TARGET_S / max(took_s, 1e-6)
        if records < self.records:
            fitting = max(fitting, self.records) if took_s < TARGET_S else fitting
        self.records = int(min(max(1.0, min(fitting, self.records * GROWTH)), self._records_max))

    def failed(self, records: int) -> None:
        """Halve the batch, so that a faulty record is soon alone."""
        self.records = max(1, records // 2)

    def slow(self) -> None:
        """Begin again with one record: the batch took longer than its limit."""
        self.records = 1
