"""Distils a draft from any target: text that it writes itself, the laws it wrote it by, and a few of its own layers."""
