"""Scripts, styles and templates of web pages."""
