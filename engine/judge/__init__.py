"""Decides on facts whether a candidate is honest, correct and faster."""
