using System;
using System.Collections.Generic;
using System.Net;
using System.Threading.Tasks;
using Microsoft.Azure.Documents;

/// <summary>Runs checks, prints a line for each, and counts.</summary>
public sealed class Checks
{
    private int passed;
    private int failed;

    public bool Succeeded => this.failed == 0 && this.passed > 0;

    public async Task Run(string name, Func<Task> check)
    {
        try
        {
            await check();
            this.passed++;
            Console.WriteLine("ok      " + name);
        }
        catch (Exception error)
        {
            this.failed++;
            string text = error.GetType().Name + ": " + error.Message.Replace("\r", "").Replace("\n", " ");
            Console.WriteLine("FAILED  " + name + ": " + (text.Length > 800 ? text.Substring(0, 800) : text));
        }
    }

    public void Summarize()
    {
        Console.WriteLine($"{this.passed} passed, {this.failed} failed");
    }
}

/// <summary>What checks expect.</summary>
public static class Expect
{
    public static void True(bool holds, string what)
    {
        if (!holds)
        {
            throw new InvalidOperationException(what);
        }
    }

    public static void Equal<T>(T expected, T actual, string what = "value")
    {
        True(EqualityComparer<T>.Default.Equals(expected, actual), $"{what}: expected {expected}, got {actual}");
    }

    public static void Same<T>(IEnumerable<T> expected, IEnumerable<T> actual)
    {
        Equal(string.Join(", ", expected), string.Join(", ", actual), "values");
    }

    public static async Task Status(HttpStatusCode status, Func<Task> call)
    {
        try
        {
            await call();
        }
        catch (DocumentClientException error)
        {
            Equal((HttpStatusCode?)status, error.StatusCode, "status");
            return;
        }
        throw new InvalidOperationException($"expected {(int)status}, but the call succeeded");
    }
}
