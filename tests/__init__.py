"""Prove the promises."""
