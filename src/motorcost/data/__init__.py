"""Recordings before they are on a model's grid."""
