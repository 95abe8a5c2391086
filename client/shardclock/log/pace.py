"""The size of a consumer's batches: as many records as the consumer's work handles in about a second."""

TARGET_S = 1.0
RECORDS_MAX = 5_000
GROWTH = 4.0  # the largest growth from batch to batch; the eighth batch has 5,000 records


class Pace:
    """Adapt the batch size to the speed of the work; the first batch has one record."""

    def __init__(self, records_max: int = RECORDS_MAX) -> None:
        self.records = 1
        self._records_max = records_max

    def done(self, records: int, took_s: float) -> None:
        """Adapt the size to the duration of a batch; after a batch of more than a second, the size is smaller."""
        fitting = records * TARGET_S / max(took_s, 1e-6)
        if records < self.records:
            fitting = max(fitting, self.records) if took_s < TARGET_S else fitting
        self.records = int(min(max(1.0, min(fitting, self.records * GROWTH)), self._records_max))

    def failed(self, records: int) -> None:
        """Halve the size after a failure, so that a faulty record is soon in a separate batch."""
        self.records = max(1, records // 2)

    def slow(self) -> None:
        """Go back to one record, because a batch has exceeded its timeout."""
        self.records = 1
