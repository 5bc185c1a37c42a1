"""Diagnosis of a recorded or predicted step: time breakdown, findings and remedies."""
