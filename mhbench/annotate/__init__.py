"""The page where people answer: what they are asked, who answers what, the file of answers, and the records that come out."""
